// The identity of a run's data, which checkpoints remember and ranks compare.
//
// A file is known by its sizes, a hash of the .idx, and one of at most 1,024 blocks of 4 KiB of the .bin, the first and
// the last among them, evenly spread (of all of it when it is no larger). Where it lies does not matter. The order is
// known by the flags that decide it, by name.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "data/indexed_dataset.h"

namespace mtl {

/// XXH3 of these blocks; reads no other part of the file.
std::uint64_t sample_hash(const MappedFile& file);

/// {"path", "bin_bytes", "bin_hash", "idx_bytes", "idx_hash"}
Json file_identity(const IndexedDataset& file);

/// The differences of {"files": [file_identity, ...], "order": {"--flag": value, ...}} that matter, in words; empty
/// when nothing does. What only one side has is not compared, but for a file. A single file_identity is read as a list
/// of it: what older checkpoints hold.
std::string data_difference(const Json& saved, const Json& now);

}  // namespace mtl
