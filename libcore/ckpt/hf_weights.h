// The weight files of a Hugging Face folder: safetensors or PyTorch's, one or several with an index.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ckpt/tensor_file.h"

namespace mtl {

/// Opens the first that exists of model.safetensors, model.safetensors.index.json with the shards that it names,
/// pytorch_model.bin, and pytorch_model.bin.index.json with its shards. Throws Error(bad_data) without any of them, and
/// for a shard that is missing or lacks a tensor that the index puts there.
std::vector<std::unique_ptr<TensorFile>> open_hf_weights(const std::string& folder);

}  // namespace mtl
