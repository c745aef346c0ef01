// One rank's part of a checkpoint: the slices that the rank writes, and the shard that holds those slices.
#pragma once

#include <string>
#include <vector>

#include "ckpt/checkpoint.h"
#include "ckpt/manifest.h"

namespace mtl {

/// Returns the slices that this rank writes: the elements that the rank owns, in each row of the store's table that is
/// saved in checkpoints. If several ranks own the same elements, only the first of those ranks writes the elements. May
/// be empty.
std::vector<TensorToSave> tensors_to_save(const ParamStore& store);

/// Returns the name of the first tensor that has a NaN or infinite element; "" if all elements are finite. Throws if a
/// tensor's dtype is not a model dtype (is_model_dtype()).
std::string find_nonfinite(const std::vector<TensorToSave>& tensors);

/// Returns the file name of the shard of a rank: "shard_00003.safetensors".
std::string shard_name(int rank);
/// Writes and syncs FOLDER/shard_%05d.safetensors, unless `tensors` is empty. Returns this rank's part of the manifest.
Manifest write_shard(const std::string& folder, int rank, const std::vector<TensorToSave>& tensors,
                     std::int64_t block_bytes);

}  // namespace mtl
