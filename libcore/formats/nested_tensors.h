// The tensors of a model in a file from torch.save(), whose dicts may be nested.
#pragma once

#include <string>
#include <vector>

#include "formats/torch_file.h"

namespace mtl {

struct NestedTensor {
  std::string name;  // the keys on the way to it, joined by dots
  const TorchTensor* tensor;
};

/// Returns the tensors in `dict`, a value of `file`, and in the dicts within it, in order. Begins their names with
/// `prefix`, unless it is empty. Throws Error(bad_data) if a key is not a string, or if dicts are nested too deep or
/// occur twice.
std::vector<NestedTensor> nested_tensors(const TorchFile& file, PickleValue dict, const std::string& prefix = "");

}  // namespace mtl
