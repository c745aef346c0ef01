// Counts, such as that of optimizer steps, in files from torch.save(). Programs save them as an integer, a real number
// or a tensor.
#pragma once

#include <cstdint>
#include <optional>

#include "formats/pickle.h"
#include "formats/torch_tensor.h"

namespace mtl {

/// Returns an integer, or a real number without its fraction. Empty for all other kinds, and for real numbers that are
/// negative or not below 9e15.
std::optional<std::int64_t> whole_number(PickleValue value);
/// Returns the element of a tensor in the same way. Empty if the tensor has several elements, or its dtype is neither
/// i64, i32 nor a model dtype.
std::optional<std::int64_t> whole_number(const TorchTensor& tensor);
/// Returns what a value in the archive states, itself or as a tensor.
template <class Archive>
std::optional<std::int64_t> whole_number(const Archive& archive, PickleValue value) {
  const TorchTensor* tensor = archive.tensor(value);
  return tensor != nullptr ? whole_number(*tensor) : whole_number(value);
}
/// Returns the number of steps that a dict's entry states, or 0.
template <class Archive>
std::int64_t steps_in(const Archive& archive, PickleValue dict, std::string_view key) {
  const std::optional<PickleValue> value = dict.find(key);
  return value ? whole_number(archive, *value).value_or(0) : 0;
}

}  // namespace mtl
