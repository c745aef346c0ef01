// How model readers access files of named tensors, in safetensors or PyTorch format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "formats/stored_dtype.h"

namespace mtl {

struct ZipEntry;

/// The remedy in messages about a file that contradicts itself or ends too early.
inline constexpr const char* kDamagedRemedy = "; the file is damaged, so copy or download it again";

/// A tensor in a file, stored densely in row-major order.
struct StoredTensor {
  std::string name;
  StoredDType dtype = StoredDType::f32;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;  // byte offsets; their origin depends on the format: use TensorFile::data()
};

/// A file of named tensors. Opening it checks its structure and maps the tensor data, which is not read until needed.
class TensorFile {
 public:
  virtual ~TensorFile() = default;
  virtual const std::string& path() const = 0;
  /// Returns all tensors, in file order.
  virtual const std::vector<StoredTensor>& tensors() const = 0;
  /// Returns names of tensors that are not stored, because each is the same as the stored tensor that it maps to.
  virtual std::map<std::string, std::string> aliases() const { return {}; }
  /// Returns nullptr if the file has no tensor with this name.
  virtual const StoredTensor* find(const std::string& name) const = 0;
  /// Returns the elements, dense and row-major. Valid while the file is open.
  virtual std::span<const std::byte> data(const StoredTensor& tensor) const = 0;
  /// Returns the zip entry, with its checksum, that contains the elements, or nullptr if the format has none.
  virtual const ZipEntry* record(const StoredTensor&) const { return nullptr; }
  /// Returns the bytes that describe the tensors (names, shapes, dtypes), for hashing.
  virtual std::span<const std::byte> header() const = 0;
  /// Returns the contents of the entire file.
  virtual std::span<const std::byte> bytes() const = 0;
  /// Throws Error(bad_data) if the contents do not match their checksums. Does nothing if the format has no checksums.
  virtual void verify() const {}

 protected:
  TensorFile() = default;
  TensorFile(TensorFile&&) = default;
  TensorFile& operator=(TensorFile&&) = default;
};

}  // namespace mtl
