// The tokens of sample i. Two orders; with T tokens in a split of documents, S the sequence length and K samples
// wanted:
//
// megatron: Megatron-LM's three indices, to the number. The split is read e = ceil((K * S + 1) / T) times ("epochs").
//   document_index   the sequences of the split, e times, shuffled as a whole
//   sample_index     sample k holds tokens k * S to (k + 1) * S of that stream, both included: of these S + 1 the last
//                    one is the next sample's first
//   shuffle_index    the order in which samples are handed out
// When the last epoch is used by less than 80 %, it is kept apart in both shuffles ("separate final epoch"), so that
// the samples which are left out all come from it. One RandomState(seed) draws both, the document index first. Both are
// kept in memory (4 bytes an entry); the sample index is not: a running sum every 64 documents finds its entries. No
// more than 2^32 - 2 entries: there NumPy's draws change. Sequences are counted in 32 bits: the split must end within
// the first 2^32 - 1 of the file.
//
// feistel: nothing is stored, so a run starts at once. An epoch's stream is the documents in the order of the file,
// from token a(epoch) on; it is cut into N = floor((T - 1) / S) samples as above, and sample j of the epoch's order is
// the cut P(j), P the keyed permutation (data/feistel.h) of [0, N) whose key is made of seed and epoch. So every epoch
// hands out every cut once. a(epoch), a number in [0, (T - 1) mod S] made of the same key, moves the cuts: what is left
// over at the ends differs from epoch to epoch. Documents that are neighbours in the file share samples: shuffle
// them when the file is made. K samples take ceil(K / N) epochs.
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

/// For messages when there is no memory for the arrays of an order.
inline constexpr const char* kOrderMemory = "an order of samples; --data-order feistel needs next to none";

enum class OrderKind { megatron, feistel };

struct SampleOrderOptions {
  OrderKind kind = OrderKind::megatron;
  std::int64_t seq_length = 0;
  std::int64_t seed = 1234;               // 0 .. 2^32 - 1
  SplitRange range{0, 0};                 // of sequences
  std::optional<std::int64_t> samples{};  // wanted at least; empty: as many as one epoch has
  // Megatron-LM's drop_last_partial_validation_sequence. False, only in the order megatron: a last sample of fewer
  // tokens counts. The tools do not set it.
  bool drop_last_partial = true;
  std::string name{};  // what messages call the data
};

/// A place in the stream of all epochs.
struct StreamPlace {
  std::int64_t position;  // which of the stream's sequences
  std::int64_t offset;    // in tokens
  bool operator==(const StreamPlace&) const = default;
};

class SampleOrder {
 public:
  /// No samples.
  SampleOrder() = default;
  /// `lengths` must outlive it. Throws Error(bad_data) when samples are wanted of a range that is empty or holds too
  /// few tokens for one, or beyond the sizes above. An empty range of which none are wanted has no samples.
  SampleOrder(const SequenceLengths& lengths, const SampleOrderOptions& options);

  std::int64_t samples() const { return samples_; }
  /// The sample that is handed out as number `index`: shuffle_index[index].
  std::int64_t shuffled(std::int64_t index) const;
  /// Its first token, and its last one, which is the label of the last input.
  StreamPlace first_of(std::int64_t sample) const;
  StreamPlace last_of(std::int64_t sample) const;
  /// The sequence at a position of the stream: document_index[position].
  std::int64_t sequence_at(std::int64_t position) const;

  /// The number of passes of the stream through the range.
  std::int64_t epochs() const { return epochs_; }
  /// Sequences in the stream.
  std::int64_t positions() const { return epochs_ * (options_.range.end - options_.range.begin); }

 private:
  bool is_feistel() const { return options_.kind == OrderKind::feistel; }
  void build_megatron();
  void build_feistel();
  void shuffle_documents(NumpyRandom& random, bool final_epoch_apart);
  void sum_lengths();
  std::int64_t epoch_start(std::int64_t epoch) const;
  std::int64_t token_of(std::int64_t sample) const;
  StreamPlace locate(std::int64_t token) const;

  SequenceLengths lengths_{nullptr, 0};
  SampleOrderOptions options_;
  std::int64_t tokens_per_epoch_ = 0, epochs_ = 0, samples_ = 0;
  BigArray<std::uint32_t> document_index_;   // megatron
  BigArray<std::uint32_t> shuffle_index_;    // megatron
  std::int64_t samples_per_epoch_ = 0;       // feistel: N
  std::vector<std::int64_t> tokens_before_;  // of every 64th position; feistel: of one epoch
};

}  // namespace mtl
