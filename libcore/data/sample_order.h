// The tokens of sample i, in one of two orders. T: tokens in the split; S: sequence length; K: requested samples.
//
// megatron: exactly Megatron-LM's three indices. The split is read e = ceil((K * S + 1) / T) times ("epochs").
//   document_index   the sequences of the split, e times, shuffled as a whole
//   sample_index     sample k holds tokens k * S to (k + 1) * S of that stream, inclusive: the last of these S + 1 is
//                    the next sample's first
//   shuffle_index    the order of training
// If less than 80 % of the final epoch is used, both shuffles keep it separate ("separate final epoch"), so that all
// unused samples come from it. One RandomState(seed) draws both, the document index first. Both are stored, 4 bytes per
// entry; the entries of the sample index are computed from a running sum every 64 documents. At most 2^32 - 2 entries:
// beyond, NumPy's draws change. Sequences are counted in 32 bits: the split must end within the first 2^32 - 1 of the
// file.
//
// feistel: no index is stored, so a run starts at once. An epoch's stream is the documents in file order, from token
// a(epoch); it is cut into N = floor((T - 1) / S) samples as above. Sample j of the epoch is the cut P(j), where P is
// the keyed permutation (data/feistel.h) of [0, N) with a key made of seed and epoch: every epoch reads every cut once.
// a(epoch) in [0, (T - 1) mod S], made of the same key, shifts the cuts, so that the tokens dropped at the ends differ
// between epochs. Documents that are neighbors in the file share samples: shuffle them when the file is made. K samples
// take ceil(K / N) epochs.
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

/// Names the arrays of an order in the out-of-memory message.
inline constexpr const char* kOrderMemory = "an order of samples; --data-order feistel needs next to none";

enum class OrderKind { megatron, feistel };

struct SampleOrderOptions {
  OrderKind kind = OrderKind::megatron;
  std::int64_t seq_length = 0;
  std::int64_t seed = 1234;               // 0 .. 2^32 - 1
  SplitRange range{0, 0};                 // of sequences
  std::optional<std::int64_t> samples{};  // at least this many; empty: one epoch
  // Megatron-LM's drop_last_partial_validation_sequence. False (megatron order only): a last sample of fewer tokens
  // counts. The tools do not set it.
  bool drop_last_partial = true;
  std::string name{};  // of the data, in messages
};

/// A place in the stream of all epochs.
struct StreamPlace {
  std::int64_t position;  // index of the sequence in the stream
  std::int64_t offset;    // in that sequence, in tokens
  bool operator==(const StreamPlace&) const = default;
};

class SampleOrder {
 public:
  /// No samples.
  SampleOrder() = default;
  /// The data of `lengths` must outlive the order. Throws Error(bad_data) for a range without tokens, with too few for
  /// one sample (feistel), or beyond the sizes above; Error(usage) for a seed or samples out of range. An empty range
  /// is valid unless samples are requested.
  SampleOrder(const SequenceLengths& lengths, const SampleOrderOptions& options);

  std::int64_t samples() const { return samples_; }
  /// The sample at `index` in the order of training: shuffle_index[index].
  std::int64_t shuffled(std::int64_t index) const;
  /// A sample's first token, and its last one, which is the label of the last input.
  StreamPlace first_token(std::int64_t sample) const;
  StreamPlace last_token(std::int64_t sample) const;
  /// The sequence at a position of the stream: document_index[position].
  std::int64_t sequence_at(std::int64_t position) const;

  /// How often the stream reads the range.
  std::int64_t epochs() const { return epochs_; }
  /// Sequences in the stream.
  std::int64_t positions() const { return epochs_ * (options_.range.end - options_.range.begin); }

 private:
  bool is_feistel() const { return options_.kind == OrderKind::feistel; }
  void build_megatron();
  void build_feistel();
  void shuffle_documents(NumpyRandom& random, bool separate_final_epoch);
  void sum_lengths();
  std::int64_t epoch_start(std::int64_t epoch) const;
  std::int64_t stream_token(std::int64_t sample) const;
  StreamPlace locate(std::int64_t token) const;

  SequenceLengths lengths_{nullptr, 0};
  SampleOrderOptions options_;
  std::int64_t tokens_per_epoch_ = 0, epochs_ = 0, samples_ = 0;
  BigArray<std::uint32_t> document_index_;   // megatron
  BigArray<std::uint32_t> shuffle_index_;    // megatron
  std::int64_t samples_per_epoch_ = 0;       // feistel: N
  std::vector<std::int64_t> tokens_before_;  // before every 64th position; feistel: of one epoch
};

}  // namespace mtl
