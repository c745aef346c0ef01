// Names, shapes and orders of a model's tensors in a Hugging Face folder, for each canonical tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ckpt/canonical.h"
#include "ckpt/tensor_map.h"
#include "nn/gpt_config.h"

namespace mtl {

struct HfTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  TensorPiece piece;  // the part of the canonical tensor that it holds
};

/// The tensors that together hold a canonical tensor, without prefix; their pieces' `file` is their index.
std::vector<HfTensor> hf_tensors_of(const CanonicalTensor& tensor, const GptConfig& config);

}  // namespace mtl
