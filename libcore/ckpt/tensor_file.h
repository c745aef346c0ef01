// A file of named tensors, whatever its format: what readers of models need from safetensors and from PyTorch's files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ckpt/stored_dtype.h"

namespace mtl {

/// One tensor of a file, stored densely in row-major order.
struct StoredTensor {
  std::string name;
  StoredDType dtype = StoredDType::f32;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes, counted from where the format begins to count: TensorFile::data
};

/// Opened and checked; the tensors' data are mapped and not touched before they are read.
class TensorFile {
 public:
  virtual ~TensorFile() = default;
  virtual const std::string& path() const = 0;
  /// In the order of their data.
  virtual const std::vector<StoredTensor>& tensors() const = 0;
  /// nullptr without it.
  virtual const StoredTensor* find(const std::string& name) const = 0;
  virtual std::span<const std::byte> data(const StoredTensor& tensor) const = 0;
  /// The description of the tensors, for hashing: names, shapes, types.
  virtual std::span<const std::byte> header() const = 0;
  /// The whole file.
  virtual std::span<const std::byte> bytes() const = 0;
  /// Compares the contents with the checksums of formats that have them.
  virtual void verify() const {}

 protected:
  TensorFile() = default;
  TensorFile(TensorFile&&) = default;
  TensorFile& operator=(TensorFile&&) = default;
};

}  // namespace mtl
