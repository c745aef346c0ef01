// The order of training samples: determines which tokens form sample i. There are two kinds of order. Below, T is the
// number of tokens in the split, S the sequence length, and K the number of requested samples.
//
// megatron: exactly Megatron-LM's three indices. The split is read e = ceil((K * S + 1) / T) times ("epochs").
//   document_index   the sequences in the split, repeated e times and shuffled together. Their tokens form a stream
//   sample_index     sample k contains tokens k * S to (k + 1) * S of the stream, inclusive. The last of these S + 1
//                    tokens is also the first token of sample k + 1
//   shuffle_index    the samples in training order
// If less than 80 % of the final epoch is used, both shuffles keep it separate ("separate final epoch"), so that all
// unused samples come from it. The same RandomState(seed) shuffles first the document index and then the shuffle index.
// We keep these two indices with 4 bytes per entry. We compute sample index entries on demand, with a running sum that
// is kept for every 64th sequence. An index can have at most 2^32 - 2 entries, because NumPy draws larger numbers
// differently. We keep sequence numbers in 32 bits, so the split must end within the first 2^32 - 1 sequences in the
// file.
//
// feistel: keeps no index, so a run starts immediately. An epoch's stream is all documents in file order, starting at
// token a(epoch). It is cut into N = floor((T - 1) / S) samples in the same way as above. Sample j in the epoch is cut
// P(j), where P is the keyed permutation (data/feistel.h) of [0, N), with a key derived from the seed and the epoch. So
// every epoch reads every cut once. The shift a(epoch), in [0, (T - 1) mod S], is derived from the same key. Because of
// the shift, each epoch drops different tokens at the two ends. Documents that are neighbors in the file share samples,
// so the documents should be shuffled when the file is made. K samples need ceil(K / N) epochs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/big_array.h"
#include "data/indexed_dataset.h"
#include "data/numpy_random.h"
#include "data/split.h"

namespace mtl {

/// What the out-of-memory message says about these arrays.
inline constexpr const char* kOrderMemory = "an order of samples; --data-order feistel needs next to none";

enum class OrderKind { megatron, feistel };

struct SampleOrderOptions {
  OrderKind kind = OrderKind::megatron;
  std::int64_t seq_length = 0;
  std::int64_t seed = 1234;               // 0 .. 2^32 - 1
  SplitRange range{0, 0};                 // the sequences to read
  std::optional<std::int64_t> samples{};  // provide at least this many; nullopt: one epoch
  // Megatron-LM's drop_last_partial_validation_sequence. If false (megatron order only), a partial last sample counts
  // as a sample. The command-line tools do not set this option.
  bool drop_last_partial = true;
  std::string name{};  // the data's name in messages
};

/// Where a token is in the stream over all epochs.
struct TokenLocation {
  std::int64_t position;  // the sequence's index in the stream
  std::int64_t offset;    // offset within the sequence, in tokens
  bool operator==(const TokenLocation&) const = default;
};

class SampleOrder {
 public:
  /// Constructs an order without samples.
  SampleOrder() = default;
  /// The caller must keep the memory behind `lengths` alive. Throws Error(bad_data) if the range has no tokens, if it
  /// has too few tokens for one sample (feistel), or if the order would exceed the limits above. Throws Error(usage) if
  /// the seed or the number of samples is out of range. An empty range is valid unless samples are requested.
  SampleOrder(const SequenceLengths& lengths, const SampleOrderOptions& options);

  std::int64_t samples() const { return samples_; }
  /// Returns the sample at `index` in training order: shuffle_index[index].
  std::int64_t shuffled(std::int64_t index) const;
  /// Return where a sample's first token is, and its last token, which is the last input's label.
  TokenLocation first_token(std::int64_t sample) const;
  TokenLocation last_token(std::int64_t sample) const;
  /// Returns the sequence at a position in the stream: document_index[position].
  std::int64_t sequence_at(std::int64_t position) const;

  /// The number of epochs: how many times the stream contains the range.
  std::int64_t epochs() const { return epochs_; }
  /// The number of sequences in the stream.
  std::int64_t positions() const { return epochs_ * (options_.range.end - options_.range.begin); }

 private:
  bool is_feistel() const { return options_.kind == OrderKind::feistel; }
  void build_megatron();
  void build_feistel();
  void shuffle_documents(NumpyRandom& random, bool separate_final_epoch);
  void sum_lengths();
  std::int64_t epoch_start(std::int64_t epoch) const;
  std::int64_t stream_token(std::int64_t sample) const;
  TokenLocation locate(std::int64_t token) const;

  SequenceLengths lengths_{nullptr, 0};
  SampleOrderOptions options_;
  std::int64_t tokens_per_epoch_ = 0, epochs_ = 0, samples_ = 0;
  BigArray<std::uint32_t> document_index_;   // megatron
  BigArray<std::uint32_t> shuffle_index_;    // megatron
  std::int64_t samples_per_epoch_ = 0;       // feistel: N
  std::vector<std::int64_t> tokens_before_;  // before every 64th position; feistel: in one epoch
};

}  // namespace mtl
