#include "data/sample_order.h"

#include <limits>
#include <numeric>
#include <span>

#include "base/error.h"
#include "data/numpy_random.h"

namespace mtl {
namespace {

constexpr std::int64_t kMaxEntries = std::numeric_limits<std::int32_t>::max();

std::int64_t count_tokens(const SequenceLengths& lengths, SplitRange range) {
  std::int64_t tokens = 0;
  for (std::int64_t i = range.begin; i < range.end; ++i) tokens += lengths[i];
  return tokens;
}

/// The least number of epochs that holds all samples and the label of the last one.
std::int64_t count_epochs(const SampleOrderOptions& options, std::int64_t tokens_per_epoch) {
  if (!options.samples) return 1;
  std::int64_t wanted = 0;
  if (__builtin_mul_overflow(*options.samples, options.seq_length, &wanted) || wanted == INT64_MAX) {
    fail(Exit::usage, options.name, ": ", *options.samples, " samples of ", options.seq_length, " tokens are too many");
  }
  return std::max<std::int64_t>(1, wanted / tokens_per_epoch + 1);  // = ceil((wanted + 1) / tokens_per_epoch)
}

/// Samples in the epochs before the last one, when that one has to be kept apart.
std::optional<std::int64_t> samples_before_final_epoch(const SampleOrderOptions& options, const SampleOrder& order) {
  if (order.epochs == 1) return std::nullopt;
  const std::int64_t before = ((order.epochs - 1) * order.tokens_per_epoch - 1) / options.seq_length;
  const std::int64_t in_final = *options.samples - before;
  const std::int64_t per_epoch = (order.tokens_per_epoch - 1) / options.seq_length;
  if (in_final < static_cast<std::int64_t>(0.8 * static_cast<double>(per_epoch))) return before;
  return std::nullopt;
}

std::vector<std::int32_t> build_document_index(SplitRange range, const SampleOrder& order, NumpyRandom& random) {
  const auto per_epoch = static_cast<std::size_t>(range.end - range.begin);
  const auto epochs = static_cast<std::size_t>(order.epochs);
  std::vector<std::int32_t> index(per_epoch * epochs);
  for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
    const auto begin = index.begin() + static_cast<std::ptrdiff_t>(epoch * per_epoch);
    std::iota(begin, begin + static_cast<std::ptrdiff_t>(per_epoch), static_cast<std::int32_t>(range.begin));
  }
  const std::span all(index);
  const std::size_t together = order.separate_final_epoch ? per_epoch * (epochs - 1) : index.size();
  random.shuffle(all.first(together));
  random.shuffle(all.subspan(together));
  return index;
}

std::int64_t count_all_samples(const SampleOrderOptions& options, const SampleOrder& order) {
  const std::int64_t inputs = order.epochs * order.tokens_per_epoch - 1;  // the last token is only a label
  return (inputs + (options.drop_last_partial ? 0 : options.seq_length - 1)) / options.seq_length;
}

std::vector<SampleStart> build_sample_index(const SequenceLengths& lengths, const std::vector<std::int32_t>& documents,
                                            std::int64_t seq_length, std::int64_t samples) {
  std::vector<SampleStart> index;
  index.reserve(static_cast<std::size_t>(samples) + 1);
  std::size_t position = 0;
  std::int64_t offset = 0;
  index.push_back({0, 0});
  while (static_cast<std::int64_t>(index.size()) <= samples) {
    std::int64_t left = seq_length + 1;  // the walk ends on the sample's last token, not after it
    for (;;) {
      const std::int64_t here = lengths[documents[position]] - offset;
      if (left <= here) {
        offset += left - 1;
        break;
      }
      left -= here;
      if (position + 1 == documents.size()) {  // a last, partial sample ends on the last token of all
        offset += here - 1;
        break;
      }
      ++position;
      offset = 0;
    }
    index.push_back({static_cast<std::int32_t>(position), static_cast<std::int32_t>(offset)});
  }
  return index;
}

std::vector<std::uint32_t> build_shuffle_index(std::size_t samples, std::size_t together, NumpyRandom& random) {
  std::vector<std::uint32_t> index(samples);
  std::iota(index.begin(), index.end(), 0);
  const std::span all(index);
  random.shuffle(all.first(together));
  random.shuffle(all.subspan(together));
  return index;
}

void check_size(const SampleOrderOptions& options, const SampleOrder& order) {
  const std::int64_t documents = options.range.end - options.range.begin;
  if (order.epochs > kMaxEntries / documents) {
    fail(Exit::bad_data, options.name, ": ", order.epochs, " epochs of ", documents,
         " sequences are needed, more than 2^31 in all; ask for fewer samples or add data");
  }
  std::int64_t tokens = 0;
  if (__builtin_mul_overflow(order.epochs, order.tokens_per_epoch, &tokens) ||
      tokens / options.seq_length >= kMaxEntries) {
    fail(Exit::bad_data, options.name, ": the order of 2^31 or more samples is beyond this version");
  }
}

}  // namespace

SampleOrder build_sample_order(const SequenceLengths& lengths, const SampleOrderOptions& options) {
  require(options.seq_length > 0, "build_sample_order: sequence length ", options.seq_length);
  require(0 <= options.range.begin && options.range.begin <= options.range.end && options.range.end <= lengths.size(),
          "build_sample_order: sequences ", options.range.begin, " to ", options.range.end, " of ", lengths.size());
  if (options.seed < 0 || options.seed > std::int64_t{UINT32_MAX}) {
    fail(Exit::usage, "--seed ", options.seed, ": the order of data takes seeds from 0 to 4294967295");
  }
  SampleOrder order;
  order.tokens_per_epoch = count_tokens(lengths, options.range);
  if (order.tokens_per_epoch < 2) {
    if (options.range.begin == options.range.end && options.samples.value_or(0) == 0) return order;
    fail(Exit::bad_data, options.name, ": sequences ", options.range.begin, " to ", options.range.end,
         " (exclusive) hold ", order.tokens_per_epoch,
         " tokens, no samples can be cut from them; choose another --split or add data");
  }
  order.epochs = count_epochs(options, order.tokens_per_epoch);
  check_size(options, order);
  const auto apart = samples_before_final_epoch(options, order);
  order.separate_final_epoch = apart.has_value();

  NumpyRandom random(static_cast<std::uint32_t>(options.seed));
  order.document_index = build_document_index(options.range, order, random);
  const std::int64_t samples = count_all_samples(options, order);
  order.sample_index = build_sample_index(lengths, order.document_index, options.seq_length, samples);
  order.shuffle_index =
      build_shuffle_index(static_cast<std::size_t>(samples), static_cast<std::size_t>(apart.value_or(samples)), random);
  return order;
}

}  // namespace mtl
