// Division of a data set's documents into parts, and random draws of some or all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "data/indexed_dataset.h"

namespace mtl {

/// Bounds of parts: part i is documents [bounds[i], bounds[i + 1]); the first bound is 0, the last documents().
/// Weights are positive; each bound is where the documents (the tokens) before it come nearest to the share of the
/// weights before it, halves rounded to even (down). Every document is in one part; a part may turn out empty.
std::vector<std::int64_t> divide_documents(const IndexedDataset& data, const std::vector<double>& weights);
std::vector<std::int64_t> divide_tokens(const IndexedDataset& data, const std::vector<double>& weights);

/// The documents in random order: numpy.random.RandomState(seed).permutation(documents). They must be below 2^32.
std::vector<std::uint32_t> shuffled_documents(std::int64_t documents, std::uint32_t seed);

/// Draws `count` different documents uniformly, in ascending order. Memory and time are proportional to `count`, which
/// must not exceed `documents`.
std::vector<std::int64_t> sample_documents(std::int64_t documents, std::int64_t count, std::uint32_t seed);

}  // namespace mtl
