// One rank's part of a checkpoint: which of its elements it writes, and the shard that they are written to.
#pragma once

#include <string>
#include <vector>

#include "ckpt/checkpoint.h"
#include "ckpt/manifest.h"

namespace mtl {

/// The rows of a store's table that checkpoints hold, the part that this rank writes: the elements that it owns. Where
/// several ranks own the same elements, the first of them writes. May be empty.
std::vector<TensorToSave> tensors_to_save(const ParamStore& store);

/// The first of the tensors that holds NaN or an infinity (fp32 is checked), "" when all are finite.
std::string find_non_finite(const std::vector<TensorToSave>& tensors);

/// "shard_00003.safetensors".
std::string shard_name(int rank);
/// Writes and syncs FOLDER/shard_%05d.safetensors; without tensors there is no file. Returns what the manifest says
/// of it.
Manifest write_shard(const std::string& folder, int rank, const std::vector<TensorToSave>& tensors,
                     std::int64_t block_bytes);

}  // namespace mtl
