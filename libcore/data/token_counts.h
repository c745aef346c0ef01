// Counts how often each token occurs, and finds the first token outside a vocabulary.
#pragma once

#include <cstdint>
#include <vector>

#include "data/indexed_dataset.h"

namespace mtl {

/// Returns counts[id] for every id from 0 to the largest id that occurs; empty if there are no tokens. Up to `threads`
/// threads each count a part of the .bin; fewer threads are used if ids are large. Memory use is 8 bytes per id and
/// thread: up to 1 GiB for ids near 2^27. Throws BrokenRule with rule "integers" if the data holds floats. Throws
/// BrokenRule with rule "vocabulary" and the place of the token if an id is negative or at least 2^27, the size of the
/// largest supported vocabulary.
std::vector<std::int64_t> count_tokens(const IndexedDataset& data, int threads);

/// Throws BrokenRule with rule "vocabulary" and the place of the token for the first token outside [0, vocab_size).
/// Throws BrokenRule with rule "integers" if the data holds floats. Reads the whole .bin.
void check_token_range(const IndexedDataset& data, std::int64_t vocab_size, int threads);

}  // namespace mtl
