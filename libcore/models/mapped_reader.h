// Base class for readers whose tensors consist of pieces in memory-mapped files, which are those for Hugging Face
// folders and for checkpoints of Megatron-LM and DeepSpeed.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "formats/tensor_file.h"
#include "formats/tensor_map.h"
#include "models/tensor_reader.h"

namespace mtl {

class MappedReader : public TensorReader {
 public:
  /// Gathers the slice into `out`. Throws Error(io) if a file has been truncated. Verifies the CRC-32 of a zip entry
  /// when its last byte has been read, and leaves the rest to verify_slice() and TensorFile::verify().
  void read(std::size_t index, const Slice& slice, std::span<std::byte> out) const final;
  /// Verifies the CRC-32 of the zip entries that contain the pieces from which the slice is read.
  void verify_slice(std::size_t index, const Slice& slice) const override;
  std::vector<NonfiniteTensor> find_nonfinite(std::size_t index) const final;
  /// Names the first of the file tensors that contain it, and its file.
  std::string stored_name(std::size_t index) const final;

 protected:
  /// The pieces of a canonical tensor, and what contains them. piece.file is an index into `contents` and `files`.
  struct TensorMap {
    std::vector<TensorPiece> pieces;
    std::vector<std::span<const std::byte>> contents;  // by piece: data of the file tensor that contains it
    std::vector<const TensorFile*> files;
    std::vector<const ZipEntry*> records;  // nullptr in files without checksums
    std::vector<std::string> names;        // in the files

    void add(TensorPiece piece, std::span<const std::byte> data, const TensorFile* file, const ZipEntry* record,
             std::string name);
  };

  void add_tensor(SavedTensor tensor, TensorMap map);

 private:
  void check_record(const TensorMap& from, std::size_t piece, const std::byte* end) const;

  std::vector<TensorMap> maps_;         // parallel to `tensors`
  mutable std::size_t unreleased_ = 0;  // bytes read since pages were last released
};

}  // namespace mtl
