// The weight files of a Hugging Face folder, in safetensors or PyTorch format: one file, or several with an index.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ckpt/tensor_file.h"

namespace mtl {

/// Opens the first of the following that exists: model.safetensors; the shards that model.safetensors.index.json names;
/// pytorch_model.bin; the shards that pytorch_model.bin.index.json names. Throws Error(bad_data) if none exists, if a
/// shard is missing, or if a shard lacks a tensor that the index assigns to that shard.
std::vector<std::unique_ptr<TensorFile>> open_hf_weights(const std::string& folder);

}  // namespace mtl
