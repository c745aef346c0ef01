// Statistics of a data set: how often each token occurs, and how long its documents and sequences are.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "data/indexed_dataset.h"
#include "data/length_summary.h"

namespace mtl {

/// Fractions of all tokens. TokenStats::coverage counts how many ids make up each fraction.
inline constexpr std::array<double, 4> kCoveredShares = {0.5, 0.9, 0.99, 0.999};

struct TokenStats {
  std::int64_t used = 0;  // number of ids that occur
  double entropy = 0;     // bits per token: -sum p log2 p
  /// For each fraction in kCoveredShares: how many of the most frequent ids make up this fraction of all tokens.
  std::array<std::int64_t, kCoveredShares.size()> coverage{};
  std::vector<std::int64_t> ranked;  // the ids that occur, most frequent first; lower ids first in a tie
};

/// `counts[id]` is how often each id occurs (see count_tokens()). Without any tokens, all numbers are 0 and `ranked` is
/// empty.
TokenStats summarize_tokens(const std::vector<std::int64_t>& counts);

struct DataStats {
  std::vector<std::int64_t> counts;  // by id
  TokenStats ids;
  LengthSummary documents, sequences;
};

/// Throws what count_tokens() throws and, if `vocab_size` is given, what check_token_range() throws.
DataStats collect_stats(const IndexedDataset& data, std::optional<std::int64_t> vocab_size, int threads);

}  // namespace mtl
