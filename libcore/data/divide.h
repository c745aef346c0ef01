// Divides a data set's documents into parts, shuffles documents, and draws documents at random.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/indexed_dataset.h"

namespace mtl {

/// Return the bounds of parts: part i consists of documents [bounds[i], bounds[i + 1]). The first bound is 0 and the
/// last is documents(). Weights must be positive and finite. Each bound is chosen so that the number of documents
/// (divide_documents()) or tokens (divide_tokens()) before it is nearest to the cumulative weight. In a tie,
/// divide_documents() takes the even bound, and divide_tokens() takes the lower one. A part can be empty.
std::vector<std::int64_t> divide_documents(const IndexedDataset& data, const std::vector<double>& weights);
std::vector<std::int64_t> divide_tokens(const IndexedDataset& data, const std::vector<double>& weights);

/// Returns the bounds of parts with these numbers of documents, none negative. At most one number may be missing; that
/// part takes the rest. Throws Error(usage), in which the message does not include the flag, if the numbers do not add
/// up to the number of documents.
std::vector<std::int64_t> divide_by_counts(const IndexedDataset& data,
                                           const std::vector<std::optional<std::int64_t>>& counts);

/// Returns all document numbers in random order, like numpy.random.RandomState(seed).permutation(documents). Throws if
/// there are 2^32 documents or more.
std::vector<std::uint32_t> shuffled_documents(std::int64_t documents, std::uint32_t seed);

/// Draws `count` distinct documents uniformly at random, and returns them in ascending order. Memory and time depend
/// only on `count`, which must not exceed `documents`.
std::vector<std::int64_t> sample_documents(std::int64_t documents, std::int64_t count, std::uint32_t seed);

}  // namespace mtl
