// Frequencies of the tokens of a data set.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace mtl {

/// The shares of all tokens for which TokenStats::coverage counts ids.
inline constexpr std::array<double, 4> kCoveredShares = {0.5, 0.9, 0.99, 0.999};

struct TokenStats {
  std::int64_t used = 0;  // ids that occur
  double entropy = 0;     // bits per token: -sum p log2 p
  /// The number of the most frequent ids that make up each of kCoveredShares.
  std::array<std::int64_t, kCoveredShares.size()> coverage{};
  std::vector<std::int64_t> ranked;  // the ids that occur, most frequent first; ties by lower id
};

/// `counts[id]`: how often each id occurs (count_tokens). Without tokens all figures are 0.
TokenStats summarize_tokens(const std::vector<std::int64_t>& counts);

}  // namespace mtl
