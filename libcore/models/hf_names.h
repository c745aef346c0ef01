// Maps canonical tensors to tensors in a Hugging Face folder: names, shapes and axis orders.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tensor_map.h"
#include "models/canonical.h"
#include "models/hf_family.h"

namespace mtl {

struct HfTensor {
  std::string name;  // with the family's prefix
  std::vector<std::int64_t> shape;
  TensorPiece piece;  // the part of the canonical tensor that this one holds
};

/// Returns the tensors that together hold a canonical tensor. piece.file is the tensor's index in the result.
std::vector<HfTensor> hf_tensors_of(const CanonicalTensor& tensor, const HfFamily& family);

/// Returns the name that hf_tensors_of() gives a tensor that is stored as `name`: with the family's prefix, which some
/// folders omit, except for the output layer, which never has a prefix but may have another name.
std::string full_hf_name(const std::string& name, const HfFamily& family);

/// True for constant buffers in old files: causal masks and rotary frequencies.
bool is_hf_buffer(std::string_view name, const HfFamily& family);

}  // namespace mtl
