// The weight files in a Hugging Face folder, in safetensors or PyTorch format: one file, or multiple files with an
// index.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/tensor_file.h"

namespace mtl {

/// Opens the first of these that exists: model.safetensors; the shards in model.safetensors.index.json;
/// pytorch_model.bin; the shards in pytorch_model.bin.index.json. Throws Error(bad_data) if none exists, if a shard is
/// missing, or if a shard does not contain a tensor that the index assigns to it.
std::vector<std::unique_ptr<TensorFile>> open_hf_weights(const std::string& folder);
/// Returns the name of the file that open_hf_weights() would open first, or "" if none exists.
std::string find_hf_weights(const std::string& folder);

}  // namespace mtl
