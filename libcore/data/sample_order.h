// The order of training samples: determines which tokens form sample i. There are two kinds of order. Below, T is the
// number of tokens in the split, S the sequence length, and K the number of requested samples.
//
// megatron: exactly the three indices of Megatron-LM. The split is read e = ceil((K * S + 1) / T) times ("epochs").
//   document_index   the sequences of the split, repeated e times and shuffled as a whole. Their tokens form a stream
//   sample_index     sample k holds tokens k * S to (k + 1) * S of the stream, inclusive. The last of these S + 1
//                    tokens is also the first token of sample k + 1
//   shuffle_index    the samples in training order
// If less than 80 % of the final epoch is used, both shuffles keep the final epoch separate ("separate final epoch"),
// so that all unused samples come from it. The same RandomState(seed) first shuffles the document index and then the
// shuffle index. These two indices are stored with 4 bytes per entry. Entries of the sample index are computed when
// needed, with the help of a running sum that is stored for every 64th sequence. An index can have at most 2^32 - 2
// entries, because NumPy draws larger numbers differently. Sequence numbers are stored in 32 bits, so the split must
// end within the first 2^32 - 1 sequences of the file.
//
// feistel: stores no index, so a run starts immediately. The stream of an epoch is all documents in file order,
// beginning at token a(epoch). It is cut into N = floor((T - 1) / S) samples in the same way as above. Sample j of the
// epoch is cut P(j), where P is the keyed permutation (data/feistel.h) of [0, N); its key is derived from the seed and
// the epoch. Every epoch therefore reads every cut once. The shift a(epoch), in [0, (T - 1) mod S], is derived from the
// same key. Because of the shift, the tokens dropped at the two ends differ between epochs. Documents that are
// neighbors in the file share samples, so the documents should be shuffled when the file is made. The number of epochs
// for K samples is ceil(K / N).
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

/// What the out-of-memory message says about the arrays of an order.
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
  std::string name{};  // name of the data in messages
};

/// A place in the stream of all epochs.
struct StreamPlace {
  std::int64_t position;  // index of the sequence in the stream
  std::int64_t offset;    // offset in the sequence, in tokens
  bool operator==(const StreamPlace&) const = default;
};

class SampleOrder {
 public:
  /// Constructs an order without samples.
  SampleOrder() = default;
  /// The memory that `lengths` refers to must outlive the order. Throws Error(bad_data) if the range has no tokens, if
  /// it has too few tokens for one sample (feistel), or if the order would exceed the limits above. Throws Error(usage)
  /// if the seed or the number of samples is out of range. An empty range is valid unless samples are requested.
  SampleOrder(const SequenceLengths& lengths, const SampleOrderOptions& options);

  std::int64_t samples() const { return samples_; }
  /// Returns the sample at `index`, in training order: shuffle_index[index].
  std::int64_t shuffled(std::int64_t index) const;
  /// Return the places of a sample's first token and of its last token, which is the label of the last input.
  StreamPlace first_token(std::int64_t sample) const;
  StreamPlace last_token(std::int64_t sample) const;
  /// Returns the sequence at a position of the stream: document_index[position].
  std::int64_t sequence_at(std::int64_t position) const;

  /// The number of epochs, that is, how many times the stream contains the range.
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
  StreamPlace locate(std::int64_t token) const;

  SequenceLengths lengths_{nullptr, 0};
  SampleOrderOptions options_;
  std::int64_t tokens_per_epoch_ = 0, epochs_ = 0, samples_ = 0;
  BigArray<std::uint32_t> document_index_;   // megatron
  BigArray<std::uint32_t> shuffle_index_;    // megatron
  std::int64_t samples_per_epoch_ = 0;       // feistel: N
  std::vector<std::int64_t> tokens_before_;  // before every 64th position; feistel: in one epoch
};

}  // namespace mtl
