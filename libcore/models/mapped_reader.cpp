#include "models/mapped_reader.h"

#include <algorithm>

#include "base/files.h"
#include "base/mapped_faults.h"
#include "base/mapped_pages.h"
#include "base/printable.h"
#include "formats/slice_steps.h"
#include "formats/zip_archive.h"

namespace mtl {

void MappedReader::TensorMap::add(TensorPiece piece, std::span<const std::byte> data, const TensorFile* file,
                                  const ZipEntry* record, std::string name) {
  piece.file = pieces.size();
  pieces.push_back(std::move(piece));
  contents.push_back(data);
  files.push_back(file);
  records.push_back(record);
  names.push_back(std::move(name));
}

void MappedReader::add_tensor(SavedTensor tensor, TensorMap map) {
  tensors.push_back(std::move(tensor));
  maps_.push_back(std::move(map));
}

void MappedReader::read(std::size_t index, const Slice& slice, std::span<std::byte> out) const {
  const TensorMap& from = maps_[index];
  const std::size_t element = bits_of(tensors[index].dtype) / 8;
  // Elements are checked and then copied from the cache. A transposed tensor is spread over its file: it is read at
  // once.
  const bool has_rows = std::ranges::all_of(from.pieces, [](const TensorPiece& piece) {
    return piece.file_strides.empty() || piece.file_strides.back() == 1;
  });
  for_each_step(slice, element, has_rows ? kStepBytes : out.size(), [&](const Slice& part, std::int64_t first) {
    gather_slice(
        from.pieces, part, element, from.contents, out.subspan(first * element, part.count() * element),
        [&](std::size_t piece, std::size_t end) { check_record(from, piece, from.contents[piece].data() + end); });
  });
  bytes_read_ += out.size();
  // A truncated file reads as zeros beyond its end, and there is no hash that would reveal this.
  for (const TensorFile* file : from.files) check_mapped_size(file->path(), file->bytes().size());
  unreleased_ += out.size();
  if (unreleased_ < kMappedPages) return;
  unreleased_ = 0;
  for (const TensorFile* file : from.files) release_pages(file->bytes());
}

/// Verifies the data before `end` of the zip entry that contains a piece. Does nothing for a piece that has none, or is
/// in a copy of the elements.
void MappedReader::check_record(const TensorMap& from, std::size_t piece, const std::byte* end) const {
  const ZipEntry* record = from.records[piece];
  if (record == nullptr || end < record->data.data() || end > record->data.data() + record->data.size()) return;
  with_where(from.files[piece]->path(), [&] { check_crc_until(*record, end - record->data.data()); });
}

void MappedReader::verify_slice(std::size_t index, const Slice& slice) const {
  const TensorMap& from = maps_[index];
  for (std::size_t i = 0; i < from.pieces.size(); ++i) {
    const ZipEntry* record = from.records[i];
    if (record != nullptr && share_elements(from.pieces[i].box, slice))
      check_record(from, i, record->data.data() + record->data.size());
  }
}

std::vector<NonfiniteTensor> MappedReader::find_nonfinite(std::size_t index) const {
  const TensorMap& from = maps_[index];
  const SavedTensor& tensor = tensors[index];
  std::vector<NonfiniteTensor> found;
  std::vector<std::byte> elements;
  for (std::size_t i = 0; i < from.pieces.size(); ++i) {
    const Slice& box = from.pieces[i].box;
    std::vector<std::int64_t> size = box.size;  // without padding rows, which are not part of the tensor
    for (std::size_t axis = 0; axis < size.size(); ++axis)
      size[axis] = std::clamp<std::int64_t>(tensor.shape[axis] - box.offset[axis], 0, size[axis]);
    Slice part = whole_slice(size);
    part.offset = box.offset;
    elements.resize(part.count() * bits_of(tensor.dtype) / 8);
    read(index, part, elements);
    const std::size_t nonfinite = count_nonfinite(tensor.dtype, elements);
    if (nonfinite == 0) continue;
    found.push_back({.file = from.files[i]->path(),
                     .name = printable_text(from.names[i]),
                     .elements = static_cast<std::size_t>(part.count()),
                     .nonfinite = nonfinite});
  }
  return found;
}

std::string MappedReader::stored_name(std::size_t index) const {
  const TensorMap& from = maps_[index];
  return cat("'", printable_text(from.names[0]), "' in ", fs::path(from.files[0]->path()).filename().string());
}

}  // namespace mtl
