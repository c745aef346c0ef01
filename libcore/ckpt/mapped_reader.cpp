#include "ckpt/mapped_reader.h"

#include "base/files.h"
#include "base/mapped_faults.h"
#include "base/printable.h"

namespace mtl {

void MappedReader::Places::add(TensorPiece piece, std::span<const std::byte> data, const TensorFile* file,
                               std::string name) {
  piece.file = pieces.size();
  pieces.push_back(std::move(piece));
  contents.push_back(data);
  files.push_back(file);
  names.push_back(std::move(name));
}

void MappedReader::add_tensor(SavedTensor tensor, Places places) {
  tensors.push_back(std::move(tensor));
  places_.push_back(std::move(places));
}

void MappedReader::read(std::size_t index, const Slice& slice, std::span<std::byte> out) const {
  const Places& from = places_[index];
  gather_slice(from.pieces, slice, bits_of(tensors[index].dtype) / 8, from.contents, out);
  bytes_read_ += out.size();
  // A truncated file reads as zeros beyond its end, and there is no hash that would reveal this. A file that was
  // removed stays fully mapped.
  for (const TensorFile* file : from.files) {
    if (file_exists(file->path())) check_mapped_size(file->path(), file->bytes().size());
  }
}

StoredPlace MappedReader::find_nonfinite(std::size_t index) const {
  const Places& from = places_[index];
  std::size_t piece = 0;
  while (piece + 1 < from.pieces.size() && count_nonfinite(tensors[index].dtype, from.contents[piece]) == 0) ++piece;
  return {from.files[piece]->path(), printable_text(from.names[piece])};
}

void hash_sample(Hasher& hasher, std::span<const std::byte> bytes, std::size_t blocks) {
  constexpr std::size_t kBlock = 4096;
  if (bytes.size() <= kBlock * blocks) return hasher.update(bytes.data(), bytes.size());
  for (std::size_t i = 0; i < blocks; ++i)
    hasher.update(bytes.data() + (bytes.size() - kBlock) / (blocks - 1) * i, kBlock);
}

}  // namespace mtl
