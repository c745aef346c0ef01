// Counts each token, and finds the first one outside a vocabulary.
#pragma once

#include <cstdint>
#include <vector>

#include "data/indexed_dataset.h"

namespace mtl {

/// Returns counts[id] for every id from 0 to the largest that occurs (empty without tokens). Up to `threads` threads
/// count parts of the .bin, fewer if ids are large: memory is 8 bytes per id and thread, up to 1 GiB for ids near 2^27.
/// Throws BrokenRule for floats ("integers"), and for an id that is negative or at least 2^27, the largest vocabulary
/// ("vocabulary"), with its place.
std::vector<std::int64_t> count_tokens(const IndexedDataset& data, int threads);

/// Throws BrokenRule ("vocabulary") for the first token that is not in [0, vocab_size), with its place; "integers" if
/// the data holds floats. Reads the whole .bin.
void check_token_range(const IndexedDataset& data, std::int64_t vocab_size, int threads);

}  // namespace mtl
