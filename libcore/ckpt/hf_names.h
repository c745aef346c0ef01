// Maps canonical tensors to those of a Hugging Face folder: names, shapes and axis orders.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ckpt/canonical.h"
#include "ckpt/hf_family.h"
#include "ckpt/tensor_map.h"

namespace mtl {

struct HfTensor {
  std::string name;  // with the prefix
  std::vector<std::int64_t> shape;
  TensorPiece piece;  // the part of the canonical tensor that it holds
};

/// The tensors that together hold a canonical tensor; piece.file is the index in the result.
std::vector<HfTensor> hf_tensors_of(const CanonicalTensor& tensor, const HfFamily& family);

/// `name` with the family's prefix, which some folders omit.
std::string full_hf_name(const std::string& name, const HfFamily& family);

/// True for constant buffers that old files hold: causal masks, rotary frequencies.
bool is_hf_buffer(std::string_view name, const HfFamily& family);

}  // namespace mtl
