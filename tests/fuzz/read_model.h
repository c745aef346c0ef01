// Reads a model as a conversion does: every tensor, and then what verify() finds.
#pragma once

#include <vector>

#include "models/tensor_reader.h"

namespace mtl {

inline void read_model(TensorReader& model) {
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    const SavedTensor& tensor = model.tensors[i];
    const Slice whole = whole_slice(tensor.shape);
    std::vector<std::byte> elements(whole.count() * bits_of(tensor.dtype) / 8);
    model.read(i, whole, elements);
  }
  model.verify();
}

}  // namespace mtl
