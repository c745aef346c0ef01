#include "data/sampler.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "data/numpy_random.h"

namespace mtl {

Sampler::Sampler(const SamplerOptions& options)
    : options_(options), batch_(options.micro_batch_size * options.dp_size), consumed_(options.consumed) {
  require(options.micro_batch_size > 0 && options.dp_size > 0 && options.consumed >= 0,
          "Sampler: sizes must be positive");
  if (options.total <= 0) fail(Exit::usage, "there are no samples to draw; use more data, or a smaller --seq-length");
  if (options.dp_rank < 0 || options.dp_rank >= options.dp_size) {
    fail(Exit::usage, "data-parallel rank ", options.dp_rank, " is not one of ", options.dp_size);
  }
  if (options.kind == SamplerKind::single) {
    if (consumed_ >= options.total) {
      fail(Exit::usage, "no samples are left, because ", consumed_, " of ", options.total,
           " are consumed; use more data, or --dataloader-type cyclic, which reads the data again");
    }
    return;
  }
  if (options.total < batch_) {
    fail(Exit::usage, "cyclic sampling needs ", batch_, " samples, one micro-batch per rank, but there are ",
         options.total, "; use fewer ranks, a smaller --micro-batch-size, or more data");
  }
  if (consumed_ % (options.total - options.total % batch_) % batch_ != 0) {
    fail(Exit::usage, "cyclic sampling cannot continue after ", consumed_, " samples, which are not a multiple of ",
         batch_,
         " (micro-batch size x data-parallel size) within the epoch; use the sizes of the run that consumed them");
  }
  start_epoch();
}

std::vector<std::int64_t> Sampler::next() {
  const std::size_t size = options_.micro_batch_size;
  std::vector<std::int64_t> batch(size);
  if (options_.kind == SamplerKind::single) {
    if (consumed_ + (options_.fills_up ? 1 : batch_) > options_.total) return {};
    std::iota(batch.begin(), batch.end(), consumed_ + options_.dp_rank * options_.micro_batch_size);
    std::ranges::replace_if(
        batch, [this](std::int64_t sample) { return sample >= options_.total; }, kNoSample);
  } else {
    if (epoch_.size() - at_ < size) start_epoch();
    for (std::int64_t& sample : batch) sample = epoch_[at_++];
  }
  consumed_ += batch_;
  return batch;
}

void Sampler::start_epoch() {
  const std::int64_t active = options_.total - options_.total % batch_;
  const std::int64_t epoch = consumed_ / active, in_epoch = consumed_ % active;
  at_ = 0;
  epoch_.clear();
  if (options_.data_sharding) {
    const std::int64_t bucket = options_.total / batch_ * options_.micro_batch_size;
    epoch_ = torch_randperm(static_cast<std::uint64_t>(epoch), bucket);
    for (std::int64_t& sample : epoch_) sample += options_.dp_rank * bucket;
    at_ = in_epoch / options_.dp_size;
    return;
  }
  // As in Megatron-LM, the permutation covers complete micro-batches, not complete multiples of B. Its samples are
  // dealt to the ranks in turn, so one rank may receive one sample more than another. Each rank starts a new epoch when
  // its own samples no longer fill a micro-batch.
  const std::int64_t bucket = options_.total / options_.micro_batch_size * options_.micro_batch_size;
  const std::vector<std::int64_t> all = torch_randperm(static_cast<std::uint64_t>(epoch), bucket);
  for (std::int64_t i = in_epoch + options_.dp_rank; i < bucket; i += options_.dp_size) {
    epoch_.push_back(all[i]);
  }
}

}  // namespace mtl
