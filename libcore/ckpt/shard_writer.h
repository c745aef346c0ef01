// One rank's part of a checkpoint: the slices that it writes, and the shard that contains them.
#pragma once

#include <string>
#include <vector>

#include "ckpt/checkpoint.h"
#include "ckpt/manifest.h"

namespace mtl {

/// Returns the slices that this rank writes: the elements it owns, in each row of ParamMemory::table() that checkpoints
/// save; without `states`, in the row of the weights. If multiple ranks own the same elements, only the first of them
/// writes them. Can be empty. If `copy` is not empty, copies the elements there now, and the tensors' bytes are this
/// copy; throws Error if it is too small.
std::vector<TensorToSave> tensors_to_save(const ParamMemory& params, bool states, std::span<std::byte> copy = {});

/// Makes the tensors' `bytes` throw Error(failure) if an element is NaN or infinite. The message begins with `what`,
/// which is then not saved, and includes the tensor.
void require_finite(std::vector<TensorToSave>& tensors, const std::string& what);

/// Returns a rank's shard file name: "shard_00003.safetensors".
std::string shard_name(int rank);
/// Writes and syncs FOLDER/shard_%05d.safetensors, unless `tensors` is empty. Returns this rank's part of the manifest.
Manifest write_shard(const std::string& folder, int rank, const std::vector<TensorToSave>& tensors,
                     std::int64_t block_bytes);

}  // namespace mtl
