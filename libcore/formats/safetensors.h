// The safetensors format: a file of named tensors. A file consists of an 8-byte little-endian length N, N bytes of JSON
// header, and the data.
//
//   {"__metadata__": {"format": "pt"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
//
// The reader does not trust the file. It accepts a file only if all of the following hold:
// - N <= 100,000,000, and 8 + N <= the file size.
// - The header is UTF-8 JSON that starts with '{'. No tensor, metadata key or known field is listed twice.
// - __metadata__ maps strings to strings. All dtypes are known.
// - Shapes and offsets are plain non-negative integers.
// - Sorted by offset, the first tensor starts at 0, every other tensor starts where the previous one ends, and the last
//   tensor ends at the end of the file.
// - product(shape) times the bits per element does not overflow, and equals END - BEGIN bytes.
//
// Zero-size and rank-0 tensors are legal. Unknown fields are skipped. Memory use is proportional to the header size.
// Throws Error(bad_data) with the file and, if a tensor is at fault, the tensor.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "formats/stored_dtype.h"
#include "formats/tensor_file.h"

namespace mtl {

/// Reads a safetensors file. StoredTensor::begin and StoredTensor::end are offsets from the first byte after the
/// header.
class SafetensorsFile : public TensorFile {
 public:
  /// Maps the file and checks the entire header. Does not read tensor data.
  explicit SafetensorsFile(const std::string& path);

  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Returns what safetensors' save_model() writes to the metadata for tensors that share memory: {removed: kept}.
  std::map<std::string, std::string> aliases() const override;
  std::span<const std::byte> data(const StoredTensor& tensor) const override;
  /// Returns all bytes before the data, including the length.
  std::span<const std::byte> header() const override { return file_.bytes().first(data_begin_); }

 private:
  std::size_t data_begin_ = 0;
  std::map<std::string, std::string> metadata_;
};

/// Writes a safetensors file. The constructor writes the header. write() then appends all tensors' data in the order of
/// `plan`, over any number of calls. Names in `plan` must be unique. `begin` and `end` in `plan` are ignored, because
/// the order determines them.
class SafetensorsWriter {
 public:
  SafetensorsWriter(OutputFile& out, const std::vector<StoredTensor>& plan,
                    const std::map<std::string, std::string>& metadata = {});
  void write(std::span<const std::byte> data);
  /// Throws unless the number of bytes written equals the number planned.
  void finish() const;

 private:
  OutputFile& out_;
  std::uint64_t expected_ = 0, written_ = 0;
};

/// Returns a tensor's size in bytes. Throws Error(bad_data) if it overflows or is not an integer.
std::uint64_t stored_bytes(StoredDType dtype, std::span<const std::uint64_t> shape);

}  // namespace mtl
