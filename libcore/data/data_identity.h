// The identity of a run's data, which checkpoints store and ranks compare.
//
// A pair of token files is identified by its sizes, a hash of the .idx, and a hash of at most 1,024 evenly spaced 4-KiB
// blocks of the .bin, including the first and the last (all of it if it is no larger). The path does not matter. The
// order is identified by the flags that determine it.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "data/indexed_dataset.h"

namespace mtl {

/// Returns the XXH3 of these blocks; reads no other part of the file.
std::uint64_t sample_hash(const MappedFile& file);

/// {"path", "bin_bytes", "bin_hash", "idx_bytes", "idx_hash"}
Json file_identity(const IndexedDataset& file);

/// Describes the first difference between two {"files": [file_identity, ...], "order": {"--flag": value, ...}}; empty
/// if there is none. Ignores keys that only one side has. Reads a single file_identity, which older checkpoints hold,
/// as a list of one.
std::string data_difference(const Json& saved, const Json& now);

}  // namespace mtl
