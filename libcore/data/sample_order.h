// Which tokens make sample i: Megatron-LM's three indices, to the number.
//
// With T tokens in a split, S the sequence length: the split is read e = ceil((samples * S + 1) / T) times ("epochs").
//   document_index   the sequences of the split, e times, shuffled as a whole
//   sample_index     sample k runs from entry k to entry k + 1, both included: S + 1 tokens, of which the last one is
//                    the next sample's first; an entry is (position in document_index, offset in that sequence)
//   shuffle_index    the order in which samples are handed out
// When the last epoch is used by less than 80 %, it is kept apart in both shuffles ("separate final epoch"), so that
// the samples which are left out all come from it. One RandomState(seed) draws both, the document index first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/indexed_dataset.h"
#include "data/split.h"

namespace mtl {

struct SampleOrderOptions {
  std::int64_t seq_length = 0;
  std::int64_t seed = 1234;               // 0 .. 2^32 - 1
  SplitRange range{0, 0};                 // of sequences
  std::optional<std::int64_t> samples{};  // wanted at least; empty: as many as one epoch has
  bool drop_last_partial = true;          // false: a last sample of fewer tokens counts too
  std::string name{};                     // what messages call the data
};

struct SampleStart {
  std::int32_t position;  // in document_index
  std::int32_t offset;    // in tokens
};

struct SampleOrder {
  std::int64_t tokens_per_epoch = 0;
  std::int64_t epochs = 0;
  bool separate_final_epoch = false;
  std::vector<std::int32_t> document_index;
  std::vector<SampleStart> sample_index;  // one more than there are samples
  std::vector<std::uint32_t> shuffle_index;

  std::int64_t samples() const { return static_cast<std::int64_t>(shuffle_index.size()); }
};

/// Throws Error(bad_data) when samples are wanted of a range that is empty or has fewer than two tokens, or when the
/// indices would have 2^31 entries. An empty range of which none are wanted gives an order without samples.
SampleOrder build_sample_order(const SequenceLengths& lengths, const SampleOrderOptions& options);

}  // namespace mtl
