#include "data/length_summary.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

namespace mtl {

LengthSummary summarize_lengths(std::vector<std::int64_t> lengths) {
  LengthSummary summary;
  summary.count = std::ssize(lengths);
  if (lengths.empty()) return summary;
  const auto [min, max] = std::minmax_element(lengths.begin(), lengths.end());
  summary.min = *min;
  summary.max = *max;
  const std::int64_t sum = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  summary.mean = double(sum) / double(summary.count);
  auto unsorted = lengths.begin();  // every length before this position is <= every length after it
  for (std::size_t i = 0; i < kPercentiles.size(); ++i) {
    const std::int64_t rank = (summary.count * kPercentiles[i] + 99) / 100;  // 1-based
    const auto at = lengths.begin() + (rank - 1);
    std::nth_element(unsorted, at, lengths.end());
    summary.percentiles[i] = *at;
    unsorted = at;
  }
  return summary;
}

std::vector<std::int64_t> document_lengths(const IndexedDataset& data) {
  std::vector<std::int64_t> lengths(data.documents());
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const std::int64_t end = data.token_begin(data.document_begin(static_cast<std::int64_t>(i) + 1));
    lengths[i] = end - begin;
    begin = end;
  }
  return lengths;
}

std::vector<std::int64_t> sequence_lengths(const IndexedDataset& data) {
  std::vector<std::int64_t> lengths(data.sequences());
  for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = data.lengths()[static_cast<std::int64_t>(i)];
  return lengths;
}

LengthHistogram histogram_of(const IndexedDataset& data) {
  LengthHistogram summary;
  const SequenceLengths lengths = data.lengths();
  if (lengths.size() > 0) {
    summary.min = std::numeric_limits<std::int32_t>::max();
    summary.mean = double(data.tokens()) / double(lengths.size());
  }
  for (std::int64_t i = 0; i < lengths.size(); ++i) {
    summary.min = std::min(summary.min, lengths[i]);
    summary.max = std::max(summary.max, lengths[i]);
    ++summary.buckets[std::bit_width(static_cast<std::uint32_t>(lengths[i]))];
  }
  for (std::int64_t i = 0; i < data.documents(); ++i) {
    summary.empty_documents += data.document_begin(i) == data.document_begin(i + 1);
  }
  return summary;
}

}  // namespace mtl
