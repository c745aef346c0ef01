// One rank's part of a checkpoint: the slices that it writes, and the shard that holds them.
#pragma once

#include <string>
#include <vector>

#include "ckpt/checkpoint.h"
#include "ckpt/manifest.h"

namespace mtl {

/// Returns the slices that this rank writes: the elements that it owns, from every row of the store's table that
/// checkpoints hold. If several ranks own the same elements, only the first writes them. May be empty.
std::vector<TensorToSave> tensors_to_save(const ParamStore& store);

/// The name of the first tensor with NaN or an infinity; "" when all are finite. Throws for dtypes that are not
/// is_model_dtype.
std::string find_nonfinite(const std::vector<TensorToSave>& tensors);

/// "shard_00003.safetensors".
std::string shard_name(int rank);
/// Writes and syncs FOLDER/shard_%05d.safetensors, unless `tensors` is empty. Returns this rank's part of the manifest.
Manifest write_shard(const std::string& folder, int rank, const std::vector<TensorToSave>& tensors,
                     std::int64_t block_bytes);

}  // namespace mtl
