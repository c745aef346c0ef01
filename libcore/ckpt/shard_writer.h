// One rank's part of a checkpoint: the slices that it writes, and the shard that contains them.
#pragma once

#include <string>
#include <vector>

#include "ckpt/checkpoint.h"
#include "ckpt/manifest.h"

namespace mtl {

/// Returns the slices that this rank writes: the elements it owns, in each row of ParamMemory::table() that checkpoints
/// save. If multiple ranks own the same elements, only the first of them writes them. Can be empty.
std::vector<TensorToSave> tensors_to_save(const ParamMemory& params);

/// Returns the name of the first tensor with a NaN or infinite element, or "" if all elements are finite. Throws if a
/// tensor's dtype is not a model dtype (is_model_dtype()).
std::string find_nonfinite(const std::vector<TensorToSave>& tensors);

/// Returns a rank's shard file name: "shard_00003.safetensors".
std::string shard_name(int rank);
/// Writes and syncs FOLDER/shard_%05d.safetensors, unless `tensors` is empty. Returns this rank's part of the manifest.
Manifest write_shard(const std::string& folder, int rank, const std::vector<TensorToSave>& tensors,
                     std::int64_t block_bytes);

}  // namespace mtl
