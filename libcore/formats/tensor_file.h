// How model readers access files of named tensors, in safetensors or PyTorch format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "formats/stored_dtype.h"

namespace mtl {

struct ZipEntry;

/// The remedy in messages about a file that contradicts itself or ends too early.
inline constexpr const char* kDamagedRemedy = "; the file is damaged, so copy or download it again";

template <class... Parts>
[[noreturn]] void refuse_damaged(const Parts&... parts) {
  fail(Exit::bad_data, parts..., kDamagedRemedy);
}

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
  const std::string& path() const { return file_.path(); }
  /// Returns all tensors, in file order.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  /// Returns names of tensors that are not stored, because each is the same as the stored tensor that it maps to.
  virtual std::map<std::string, std::string> aliases() const { return {}; }
  /// Returns nullptr if the file has no tensor with this name.
  const StoredTensor* find(const std::string& name) const {
    const auto found = index_.find(name);
    return found == index_.end() ? nullptr : &tensors_[found->second];
  }
  /// Returns the elements, dense and row-major. Valid while the file is open.
  virtual std::span<const std::byte> data(const StoredTensor& tensor) const = 0;
  /// Returns the zip entry, with its checksum, that contains the elements, or nullptr if the format has none.
  virtual const ZipEntry* record(const StoredTensor&) const { return nullptr; }
  /// Returns the bytes that describe the tensors (names, shapes, dtypes), for hashing.
  virtual std::span<const std::byte> header() const = 0;
  /// Returns the contents of the entire file.
  std::span<const std::byte> bytes() const { return file_.bytes(); }
  /// Throws Error(bad_data) if the contents do not match their checksums. Does nothing if the format has no checksums.
  virtual void verify() const {}

 protected:
  explicit TensorFile(const std::string& path) : file_(path) {}
  TensorFile(TensorFile&&) = default;
  TensorFile& operator=(TensorFile&&) = default;

  /// Appends a tensor. Returns false if there is another one with its name.
  bool add(const StoredTensor& tensor) {
    if (!index_.emplace(tensor.name, tensors_.size()).second) return false;
    tensors_.push_back(tensor);
    return true;
  }

  MappedFile file_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::size_t> index_;  // into tensors_, by name
};

}  // namespace mtl
