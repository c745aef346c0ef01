// Divides a data set's documents into parts, and draws some or all of them at random.
#pragma once

#include <cstdint>
#include <vector>

#include "data/indexed_dataset.h"

namespace mtl {

/// Returns the bounds of parts: part i is documents [bounds[i], bounds[i + 1]); the first bound is 0, the last
/// documents(). Weights are positive. Each bound is where the number of documents (or tokens) before it is nearest to
/// the cumulative share of the weights; in a tie, divide_documents takes the even bound and divide_tokens the lower
/// one. A part may be empty.
std::vector<std::int64_t> divide_documents(const IndexedDataset& data, const std::vector<double>& weights);
std::vector<std::int64_t> divide_tokens(const IndexedDataset& data, const std::vector<double>& weights);

/// Returns the documents in random order: numpy.random.RandomState(seed).permutation(documents). Throws for 2^32
/// documents or more.
std::vector<std::uint32_t> shuffled_documents(std::int64_t documents, std::uint32_t seed);

/// Draws `count` different documents uniformly, in ascending order. Memory and time depend only on `count`, which must
/// not exceed `documents`.
std::vector<std::int64_t> sample_documents(std::int64_t documents, std::int64_t count, std::uint32_t seed);

}  // namespace mtl
