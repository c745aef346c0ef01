// Length statistics: extremes, mean, percentiles, histogram.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "data/indexed_dataset.h"

namespace mtl {

/// The percentiles to report. The p-th percentile is the smallest length L such that at least p percent of all lengths
/// are at most L.
inline constexpr std::array<int, 9> kPercentiles = {1, 5, 10, 25, 50, 75, 90, 95, 99};

struct LengthSummary {
  std::int64_t count = 0, min = 0, max = 0;
  double mean = 0;
  std::array<std::int64_t, kPercentiles.size()> percentiles{};
};

/// Summarizes lengths in linear time, without allocating more memory. All members are 0 if `lengths` is empty.
LengthSummary summarize_lengths(std::vector<std::int64_t> lengths);

/// Returns every document's length in tokens, including empty documents. Uses 8 bytes of memory per document.
std::vector<std::int64_t> document_lengths(const IndexedDataset& data);
/// Returns every sequence's length in tokens. Uses 8 bytes of memory per sequence.
std::vector<std::int64_t> sequence_lengths(const IndexedDataset& data);

/// A histogram of sequence lengths. Bucket 0 counts empty sequences. Bucket k counts sequences with 2^(k-1) to 2^k - 1
/// tokens.
struct LengthHistogram {
  std::int32_t min = 0, max = 0;
  double mean = 0;
  std::array<std::int64_t, 33> buckets{};
  std::int64_t empty_documents = 0;
};

LengthHistogram histogram_of(const IndexedDataset& data);

/// Return the shortest and the longest length in a bucket.
inline std::int64_t bucket_begin(std::size_t bucket) { return bucket == 0 ? 0 : std::int64_t{1} << (bucket - 1); }
inline std::int64_t bucket_end(std::size_t bucket) { return (std::int64_t{1} << bucket) - 1; }

}  // namespace mtl
