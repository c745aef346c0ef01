#include "data/token_stats.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <numeric>

#include "data/token_counts.h"

namespace mtl {
namespace {

/// Returns all ids that occur, sorted by decreasing frequency, then by increasing id.
std::vector<std::int64_t> rank_ids(const std::vector<std::int64_t>& counts) {
  std::vector<std::int64_t> ids;
  for (std::size_t id = 0; id < counts.size(); ++id) {
    if (counts[id] > 0) ids.push_back(id);
  }
  std::ranges::stable_sort(ids, [&](std::int64_t a, std::int64_t b) { return counts[a] > counts[b]; });
  return ids;
}

}  // namespace

TokenStats summarize_tokens(const std::vector<std::int64_t>& counts) {
  TokenStats stats;
  stats.ranked = rank_ids(counts);
  stats.used = std::ssize(stats.ranked);
  const double tokens = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  std::int64_t sum = 0;
  std::size_t share = 0;
  for (std::size_t rank = 0; rank < stats.ranked.size(); ++rank) {
    const std::int64_t count = counts[stats.ranked[rank]];
    const double p = double(count) / tokens;
    stats.entropy -= p * std::log2(p);
    sum += count;
    for (; share < kCoveredShares.size() && double(sum) >= kCoveredShares[share] * tokens; ++share) {
      stats.coverage[share] = static_cast<std::int64_t>(rank) + 1;
    }
  }
  stats.entropy = std::abs(stats.entropy);  // a single id gives -0
  return stats;
}

DataStats collect_stats(const IndexedDataset& data, std::optional<std::int64_t> vocab_size, int threads) {
  DataStats stats;
  stats.counts = count_tokens(data, threads);
  // Read the tokens again only to find out where an id is too large.
  if (vocab_size && std::ssize(stats.counts) > *vocab_size) check_token_range(data, *vocab_size, threads);
  stats.ids = summarize_tokens(stats.counts);
  stats.documents = summarize_lengths(document_lengths(data));
  stats.sequences = summarize_lengths(sequence_lengths(data));
  return stats;
}

}  // namespace mtl
