// The identity of a run's data. Checkpoints store it, and ranks compare it.
//
// A pair of token files is identified by the sizes of both files, a hash of the .idx, and a hash of at most 1,024 4-KiB
// blocks of the .bin. The blocks are evenly spaced and include the first and the last block; a .bin with at most 1,024
// blocks is hashed completely. The path does not matter. The data order is identified by the flags that determine it.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "data/indexed_dataset.h"

namespace mtl {

/// Returns the XXH3 hash of the 4-KiB blocks described above. Does not read any other part of the file.
std::uint64_t sample_hash(const MappedFile& file);

/// Returns {"path", "bin_bytes", "bin_hash", "idx_bytes", "idx_hash"}.
Json file_identity(const IndexedDataset& file);

/// Describes the differences between two identities, or returns an empty string if there is none. An identity has
/// the form {"files": [file_identity, ...], "order": {"--flag": value, ...}}. A single file_identity, which older
/// checkpoints store, is treated as a list with one file. Keys that only one identity has are ignored.
std::string data_difference(const Json& saved, const Json& now);

}  // namespace mtl
