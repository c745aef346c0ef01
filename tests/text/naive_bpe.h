// Implements byte-pair encoding by its definition: each merge searches all adjacent pairs for the best one.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace mtl {

/// Repeatedly merges the adjacent pair with the lowest rank, or the leftmost such pair, until no pair has a rank.
/// `rank_of(left, right)` returns an optional number.
template <class RankOf>
void merge_naively(std::vector<std::string>& symbols, const RankOf& rank_of) {
  while (true) {
    std::size_t best = symbols.size();
    decltype(rank_of(symbols[0], symbols[0])) best_rank;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto rank = rank_of(symbols[i], symbols[i + 1]);
      if (rank && (!best_rank || *rank < *best_rank)) best = i, best_rank = rank;
    }
    if (best == symbols.size()) return;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

}  // namespace mtl
