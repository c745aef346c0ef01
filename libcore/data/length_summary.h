// Lengths in short: extremes, mean, percentiles.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "data/indexed_dataset.h"

namespace mtl {

/// Percentiles that are told. The p-th is the smallest length that at least p percent of all do not exceed.
inline constexpr std::array<int, 9> kPercentiles = {1, 5, 10, 25, 50, 75, 90, 95, 99};

struct LengthSummary {
  std::int64_t count = 0, min = 0, max = 0;
  double mean = 0;
  std::array<std::int64_t, kPercentiles.size()> percentiles{};
};

/// Of any lengths; without any all figures are 0. Takes no memory beside `lengths`, and linear time.
LengthSummary summarize_lengths(std::vector<std::int64_t> lengths);

/// Tokens in every document, empty ones included: 8 bytes of memory for each.
std::vector<std::int64_t> document_lengths(const IndexedDataset& data);
/// Tokens in every sequence, likewise.
std::vector<std::int64_t> sequence_lengths(const IndexedDataset& data);

}  // namespace mtl
