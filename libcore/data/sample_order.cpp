#include "data/sample_order.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/count_of.h"
#include "base/error.h"
#include "data/feistel.h"

namespace mtl {
namespace {

constexpr std::int64_t kBlockSequences = 64;        // sequences between two running sums
constexpr std::int64_t kMaxSequences = UINT32_MAX;  // the document index has 32-bit entries
constexpr std::int64_t kMaxEntries = std::int64_t{UINT32_MAX} - 1;

std::int64_t count_tokens(const SequenceLengths& lengths, SplitRange range) {
  std::int64_t tokens = 0;
  for (std::int64_t i = range.begin; i < range.end; ++i) tokens += lengths[i];
  return tokens;
}

/// Returns the smallest number of epochs that contains all requested samples, including the last one's label. Returns 1
/// if the number of samples is not given.
std::int64_t count_epochs(const SampleOrderOptions& options, std::int64_t tokens_per_epoch) {
  if (!options.samples) return 1;
  std::int64_t inputs = 0;
  if (__builtin_mul_overflow(*options.samples, options.seq_length, &inputs) || inputs == INT64_MAX) {
    fail(Exit::usage, options.name, ": ", *options.samples, " samples of ", options.seq_length,
         " tokens overflow the 64-bit token count; request fewer samples");
  }
  return std::max<std::int64_t>(1, inputs / tokens_per_epoch + 1);  // = ceil((inputs + 1) / tokens_per_epoch)
}

/// Returns the number of samples before the final epoch if that epoch is kept separate, otherwise nullopt.
std::optional<std::int64_t> samples_before_final_epoch(const SampleOrderOptions& options, std::int64_t epochs,
                                                       std::int64_t tokens_per_epoch) {
  if (epochs == 1) return std::nullopt;
  const std::int64_t before = ((epochs - 1) * tokens_per_epoch - 1) / options.seq_length;
  const std::int64_t in_final = *options.samples - before;
  const std::int64_t per_epoch = (tokens_per_epoch - 1) / options.seq_length;
  if (in_final < static_cast<std::int64_t>(0.8 * double(per_epoch))) return before;
  return std::nullopt;
}

std::uint64_t key_of_epoch(std::int64_t seed, std::int64_t epoch) {
  return mix_bits(static_cast<std::uint64_t>(seed) << 32 ^ static_cast<std::uint64_t>(epoch));
}

}  // namespace

SampleOrder::SampleOrder(const SequenceLengths& lengths, const SampleOrderOptions& options)
    : lengths_(lengths), options_(options) {
  const SplitRange range = options.range;
  require(options.seq_length > 0, "SampleOrder: sequence length ", options.seq_length);
  require(0 <= range.begin && range.begin <= range.end && range.end <= lengths.size(), "SampleOrder: sequences ",
          range.begin, " to ", range.end, " of ", lengths.size());
  if (options.seed < 0 || options.seed > std::int64_t{UINT32_MAX}) {
    fail(Exit::usage, "--seed ", options.seed, ": the seed of the data order must be from 0 to 4294967295");
  }
  tokens_per_epoch_ = count_tokens(lengths, range);
  // A single token is enough, because a sample can span multiple epochs.
  if (tokens_per_epoch_ == 0) {
    if (range.begin == range.end && options.samples.value_or(0) == 0) return;
    fail(Exit::bad_data, options.name, ": sequences ", range.begin, " to ", range.end, " (exclusive) contain ",
         "no tokens and so give no sample; choose another --split or add data");
  }
  if (is_feistel())
    build_feistel();
  else
    build_megatron();
  sum_lengths();
}

void SampleOrder::build_megatron() {
  if (options_.range.end > kMaxSequences) {
    fail(Exit::bad_data, options_.name, ": the split ends at sequence ", options_.range.end, ", beyond the ",
         kMaxSequences, " that the order can index; divide the data with mtl-data split, or use --data-order feistel");
  }
  epochs_ = count_epochs(options_, tokens_per_epoch_);
  std::int64_t tokens = 0, sequences = 0;
  if (__builtin_mul_overflow(epochs_, tokens_per_epoch_, &tokens) ||
      __builtin_mul_overflow(epochs_, options_.range.end - options_.range.begin, &sequences) ||
      sequences > kMaxEntries || tokens / options_.seq_length >= kMaxEntries) {
    fail(Exit::bad_data, options_.name, ": ", epochs_, " epochs of ", options_.range.end - options_.range.begin,
         " sequences and ", tokens_per_epoch_, " tokens need more entries than an order can have (about 2^32)",
         "; request fewer samples, add data, or use --data-order feistel");
  }
  const auto separate_at = samples_before_final_epoch(options_, epochs_, tokens_per_epoch_);
  NumpyRandom random(static_cast<std::uint32_t>(options_.seed));
  shuffle_documents(random, separate_at.has_value());

  const std::int64_t inputs = tokens - 1;  // the last token is only a label
  samples_ = (inputs + (options_.drop_last_partial ? 0 : options_.seq_length - 1)) / options_.seq_length;
  shuffle_index_ = BigArray<std::uint32_t>(samples_, kOrderMemory);
  const std::span all = shuffle_index_.span();
  std::iota(all.begin(), all.end(), 0u);
  const std::size_t together = separate_at.value_or(samples_);
  random.shuffle(all.first(together));
  random.shuffle(all.subspan(together));
}

void SampleOrder::shuffle_documents(NumpyRandom& random, bool separate_final_epoch) {
  const std::size_t per_epoch = options_.range.end - options_.range.begin;
  const std::size_t epochs = epochs_;
  document_index_ = BigArray<std::uint32_t>(per_epoch * epochs, kOrderMemory);
  const std::span all = document_index_.span();
  for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
    const std::span once = all.subspan(epoch * per_epoch, per_epoch);
    std::iota(once.begin(), once.end(), static_cast<std::uint32_t>(options_.range.begin));
  }
  const std::size_t together = separate_final_epoch ? per_epoch * (epochs - 1) : all.size();
  random.shuffle(all.first(together));
  random.shuffle(all.subspan(together));
}

void SampleOrder::build_feistel() {
  require(options_.drop_last_partial, "--data-order feistel does not support partial samples");
  samples_per_epoch_ = (tokens_per_epoch_ - 1) / options_.seq_length;
  if (samples_per_epoch_ == 0) {
    fail(Exit::bad_data, options_.name, " contains ", count_of(tokens_per_epoch_, "token"),
         ", fewer than one sample of ", options_.seq_length,
         " and its last label; use --data-order megatron, which joins several epochs, or add data");
  }
  const std::int64_t requested = std::max<std::int64_t>(1, options_.samples.value_or(1));
  epochs_ = (requested - 1) / samples_per_epoch_ + 1;
  std::int64_t tokens = 0;  // upper bound for token numbers and positions
  if (__builtin_mul_overflow(epochs_, std::max(tokens_per_epoch_, options_.range.end), &tokens)) {
    fail(Exit::usage, options_.name, ": ", requested, " samples of ", options_.seq_length,
         " tokens overflow the 64-bit token count; request fewer samples");
  }
  samples_ = epochs_ * samples_per_epoch_;
}

/// Computes running sums over the sequence lengths in the stream. The megatron order needs sums over all epochs. The
/// feistel order needs only one epoch, because every epoch has the same documents in file order.
void SampleOrder::sum_lengths() {
  const std::int64_t count = is_feistel() ? options_.range.end - options_.range.begin : positions();
  tokens_before_.reserve(count / kBlockSequences + 1);
  std::int64_t tokens = 0;
  for (std::int64_t begin = 0; begin < count; begin += kBlockSequences) {
    tokens_before_.push_back(tokens);
    for (std::int64_t i = begin; i < std::min(begin + kBlockSequences, count); ++i) tokens += lengths_[sequence_at(i)];
  }
}

std::int64_t SampleOrder::shuffled(std::int64_t index) const {
  require(index >= 0 && index < samples_, options_.name, ": no sample ", index, " of ", samples_);
  if (!is_feistel()) return shuffle_index_[index];
  const std::int64_t epoch = index / samples_per_epoch_, first = epoch * samples_per_epoch_;
  return first + KeyedPermutation(samples_per_epoch_, key_of_epoch(options_.seed, epoch))(index - first);
}

std::int64_t SampleOrder::sequence_at(std::int64_t position) const {
  if (!is_feistel()) return document_index_[position];
  return options_.range.begin + position % (options_.range.end - options_.range.begin);
}

/// Returns a(epoch) in the feistel order (see sample_order.h).
std::int64_t SampleOrder::epoch_start(std::int64_t epoch) const {
  const auto left_over = static_cast<std::uint64_t>((tokens_per_epoch_ - 1) % options_.seq_length);
  return mix_bits(key_of_epoch(options_.seed, epoch)) % (left_over + 1);
}

/// Returns the index of a sample's first token in the stream over all epochs.
std::int64_t SampleOrder::stream_token(std::int64_t sample) const {
  if (!is_feistel()) return sample * options_.seq_length;
  const std::int64_t epoch = sample / samples_per_epoch_;
  return epoch * tokens_per_epoch_ + epoch_start(epoch) + sample % samples_per_epoch_ * options_.seq_length;
}

TokenLocation SampleOrder::first_token(std::int64_t sample) const {
  // In Megatron-LM's sample index, the first entry is (0, 0) even if the first sequence is empty.
  if (sample == 0 && !is_feistel()) return {0, 0};
  return locate(stream_token(sample));
}

TokenLocation SampleOrder::last_token(std::int64_t sample) const {
  const std::int64_t last = epochs_ * tokens_per_epoch_ - 1;  // the end of a partial last sample
  return locate(std::min(stream_token(sample) + options_.seq_length, last));
}

TokenLocation SampleOrder::locate(std::int64_t token) const {
  const std::int64_t epoch = is_feistel() ? token / tokens_per_epoch_ : 0;
  token -= epoch * tokens_per_epoch_;
  const auto block = std::ranges::upper_bound(tokens_before_, token) - 1;
  std::int64_t position = (block - tokens_before_.begin()) * kBlockSequences;
  token -= *block;
  for (;;) {
    const std::int64_t length = lengths_[sequence_at(position)];
    if (token < length) break;
    token -= length;
    ++position;
  }
  return {position + epoch * (options_.range.end - options_.range.begin), token};
}

}  // namespace mtl
