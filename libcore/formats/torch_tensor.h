// A tensor in a file from torch.save(): strided, like PyTorch's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/stored_dtype.h"
#include "formats/zip_archive.h"

namespace mtl {

/// A strided view of a storage. Cheap to copy. Valid while the file is open.
struct TorchTensor {
  StoredDType dtype = StoredDType::f32;
  std::vector<std::int64_t> shape, strides;  // strides in elements
  std::span<const std::byte> data;   // from the first element to the end of the storage; empty if there are no elements
  const ZipEntry* record = nullptr;  // the storage's zip entry; nullptr in a stream

  std::int64_t count() const;
  bool is_contiguous() const;
};

/// Fills `out` with consecutive elements in row-major order, starting at element `begin`. The range must lie within the
/// tensor.
void read_elements(const TorchTensor& tensor, std::int64_t begin, std::span<std::byte> out);

}  // namespace mtl
