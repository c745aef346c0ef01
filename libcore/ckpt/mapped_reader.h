// The base class of readers whose tensors are pieces of mapped files: Hugging Face folders and Megatron-LM's
// checkpoints.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/hash.h"
#include "ckpt/tensor_file.h"
#include "ckpt/tensor_map.h"
#include "ckpt/tensor_reader.h"

namespace mtl {

class MappedReader : public TensorReader {
 public:
  /// Gathers the slice. Throws Error(io) when one of the files became shorter.
  void read(std::size_t index, const Slice& slice, std::span<std::byte> out) const final;

 protected:
  /// The source of one canonical tensor. piece.file is the index into `contents` and `files`.
  struct Places {
    std::vector<TensorPiece> pieces;
    std::vector<std::span<const std::byte>> contents;  // each piece's tensor in its file
    std::vector<const TensorFile*> files;

    void add(TensorPiece piece, std::span<const std::byte> data, const TensorFile* file);
  };

  void add_tensor(SavedTensor tensor, Places places);
  const Places& places(std::size_t index) const { return places_[index]; }

 private:
  std::vector<Places> places_;  // parallel to `tensors`
};

/// Hashes `blocks` (at least 2) evenly spread blocks of 4 KiB, or all bytes if there are at most that many:
/// distinguishes models without reading all of their data.
void hash_sample(Hasher& hasher, std::span<const std::byte> bytes, std::size_t blocks);

}  // namespace mtl
