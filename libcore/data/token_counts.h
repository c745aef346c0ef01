// Counts how often each token occurs, and finds the first token outside a vocabulary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/indexed_dataset.h"
#include "data/integer_type.h"

namespace mtl {

/// Returns counts[id] for every id from 0 to the largest id that occurs. Empty if there are no tokens. Up to `threads`
/// threads each count part of the .bin, but fewer if ids are large. Uses 8 bytes of memory per id and thread, up to 1
/// GiB for ids near 2^27. Throws BrokenRule with rule "integers" if the tokens are floats. Throws BrokenRule with rule
/// "vocabulary" and the token's location if an id is negative or at least 2^27, the largest supported vocabulary size.
/// Throws Error(io) if a file has been truncated.
std::vector<std::int64_t> count_tokens(const IndexedDataset& data, int threads);

/// Throws BrokenRule with rule "vocabulary" and the token's location for the first token outside [0, vocab_size).
/// Throws BrokenRule with rule "integers" if the tokens are floats, and Error(io) if a file has been truncated. Reads
/// the entire .bin.
void check_token_range(const IndexedDataset& data, std::int64_t vocab_size, int threads);

/// Returns where a token is, for messages: "token 3 of sequence 2, in document 1". `token` is its index among all
/// tokens in the .bin.
std::string describe_location(const IndexedDataset& data, std::int64_t token);
/// Writes `tokens` of `data`, in which the first of them is number `first`, at `out` in the type `to`. Throws
/// Error(bad_data), with the location, for one that does not fit.
void convert_tokens(const IndexedDataset& data, std::int64_t first, std::span<const std::byte> tokens, IntegerType to,
                    std::byte* out);

}  // namespace mtl
