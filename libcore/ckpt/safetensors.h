// safetensors: one file of named tensors. An 8-byte little-endian length N, a JSON header of N bytes, then the data.
//
//   {"__metadata__": {"format": "pt"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
//
// The reader trusts nothing. It accepts a file only if: N <= 100,000,000 and 8 + N <= the file's size; the header is
// UTF-8 JSON that starts with '{' and lists no tensor, metadata key or known field twice; __metadata__ maps strings to
// strings; dtypes are known; shapes and offsets are plain non-negative integers; sorted by offset, the first tensor
// begins at 0, every other one where the previous tensor ends, and the last one ends with the file; and product(shape)
// times the bits of an element, without overflow, is END - BEGIN bytes. Zero-size and rank-0 tensors are legal; unknown
// fields are skipped. Memory use is proportional to the header. Throws Error(bad_data) that names the file and the
// tensor.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "ckpt/stored_dtype.h"
#include "ckpt/tensor_file.h"

namespace mtl {

/// StoredTensor::begin and end count from the first byte after the header.
class SafetensorsFile : public TensorFile {
 public:
  /// Maps the file and checks the whole header; does not touch tensor data.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const override { return file_.path(); }
  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const StoredTensor* find(const std::string& name) const override;
  std::span<const std::byte> data(const StoredTensor& tensor) const override;
  /// All bytes before the data, including the length.
  std::span<const std::byte> header() const override { return file_.bytes().first(data_begin_); }
  std::span<const std::byte> bytes() const override { return file_.bytes(); }

 private:
  MappedFile file_;
  std::size_t data_begin_ = 0;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::size_t> index_;
  std::map<std::string, std::string> metadata_;
};

/// Writes the header at once, then takes the data of every tensor in the order of the plan, in pieces of any size.
/// Names must be unique. Ignores begin and end in the plan: they follow from its order.
class SafetensorsWriter {
 public:
  SafetensorsWriter(OutputFile& out, const std::vector<StoredTensor>& plan,
                    const std::map<std::string, std::string>& metadata = {});
  void write(std::span<const std::byte> data);
  /// Throws unless every planned byte was written.
  void finish() const;

 private:
  OutputFile& out_;
  std::uint64_t expected_ = 0, written_ = 0;
};

/// Bytes of a tensor. Throws Error(bad_data) when the product overflows or is not a whole number of bytes.
std::uint64_t stored_bytes(StoredDType dtype, std::span<const std::uint64_t> shape);

}  // namespace mtl
