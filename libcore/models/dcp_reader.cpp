#include "models/dcp_reader.h"

#include <algorithm>
#include <utility>

#include "base/mapped_pages.h"
#include "base/printable.h"
#include "formats/slice_steps.h"

namespace mtl {

void DcpReader::add_tensor(State state) {
  tensors.push_back(std::move(state.first));
  maps_.push_back(std::move(state.second));
}

void DcpReader::add_box(const StoredMatrix& matrix, const DcpSource& source, std::optional<std::int64_t> layer,
                        TensorMap& map) {
  const std::vector<std::int64_t>&from = source.box->slice.offset, &size = source.box->slice.size;
  const std::size_t axis = layer ? 1 : 0;
  const bool has_columns = matrix.column_axis >= 0;
  const std::int64_t width = has_columns ? size[axis + 1] : 1, column = has_columns ? from[axis + 1] : 0;
  const std::int64_t begin = layer ? (*layer - from[0]) * size[1] * width : 0;
  add_rectangle(matrix, {from[axis], from[axis] + size[axis], column, column + width}, map.sources.size(), begin,
                {width}, map.pieces);
  map.sources.push_back(source);
}

void DcpReader::read(std::size_t index, const Slice& slice, std::span<std::byte> out) const {
  const StoredDType dtype = tensors[index].dtype;
  const std::size_t element = bits_of(dtype) / 8;
  for_each_step(slice, element, kStepBytes, [&](const Slice& part, std::int64_t first) {
    gather(maps_[index], dtype, part, out.subspan(first * element, part.count() * element));
  });
  bytes_read_ += out.size();
}

void DcpReader::gather(const TensorMap& from, StoredDType dtype, const Slice& slice, std::span<std::byte> out) const {
  std::vector<const DcpSource*> sources;
  std::map<std::size_t, std::size_t> numbers;  // index into `sources`, by index into from.sources
  std::vector<TensorPiece> pieces;
  for (const TensorPiece& piece : from.pieces) {
    if (!boxes_meet(piece.box, slice)) continue;
    const auto [found, is_new] = numbers.emplace(piece.file, sources.size());
    if (is_new) sources.push_back(&from.sources[piece.file]);
    pieces.push_back(piece);
    pieces.back().file = found->second;
  }
  for (auto next = open_.begin(); next != open_.end();) {
    const DcpBox* box = (next++)->first;
    if (std::ranges::none_of(sources, [&](const DcpSource* source) { return source->box == box; })) close(*box);
  }
  std::vector<std::span<const std::byte>> contents;
  for (const DcpSource* source : sources)
    contents.push_back(source->view != nullptr ? source->view->data : open(*source).elements);
  gather_slice(pieces, slice, bits_of(dtype) / 8, contents, out,
               [&](std::size_t number, std::size_t end) { check_record(*sources[number], end); });
  // A truncated file reads as zeros beyond its end, in the last page.
  for (const DcpSource* source : sources) dcp_.check_size(source->range());
  unreleased_ += out.size();
  if (unreleased_ < kMappedPages) return;
  unreleased_ = 0;
  for (const DcpSource* source : sources) dcp_.release(source->range());
}

/// Returns a box with its archive open.
const DcpReader::Reading& DcpReader::open(const DcpSource& source) const {
  const auto [found, is_new] = open_.try_emplace(source.box);
  Reading& reading = found->second;
  if (!is_new) return reading;
  try {
    reading.box = dcp_.open_box(*source.key, *source.tensor, *source.box);
  } catch (...) {
    open_.erase(found);
    throw;
  }
  const TorchTensor& tensor = *reading.box.tensor;
  if (tensor.record != nullptr)
    tensor.record->verified = verified_[{source.box->range.file, source.box->range.offset}].elements;
  const std::size_t bytes = tensor.count() * bits_of(tensor.dtype) / 8;
  if (bytes == 0 || tensor.is_contiguous()) {
    reading.elements = tensor.data.first(bytes);
  } else {
    reading.copy.resize(bytes);
    read_elements(tensor, 0, reading.copy);
    reading.elements = reading.copy;
  }
  return reading;
}

/// Closes a box's archive, and releases its pages.
void DcpReader::close(const DcpBox& box) const {
  const auto found = open_.find(&box);
  if (const ZipEntry* record = found->second.box.tensor->record; record != nullptr)
    verified_[{box.range.file, box.range.offset}].elements = record->verified;
  open_.erase(found);
  dcp_.release(box.range);
}

/// Calls check(). If it finds damage, adds to the message where the archive is.
template <class Check>
void DcpReader::with_location(const DcpSource& source, const Check& check) const {
  with_where(dcp_.file_of(source.range()), check, "the archive of '", printable_text(*source.key), "' at offset ",
             source.range().offset, ": ");
}

/// Verifies the record of an open box, or of an object's view, until the first `end` bytes of its elements.
void DcpReader::check_record(const DcpSource& source, std::size_t end) const {
  if (source.view == nullptr && !open(source).copy.empty()) return;
  const TorchTensor& tensor = source.view != nullptr ? *source.view : *open(source).box.tensor;
  if (tensor.record == nullptr) return;
  with_location(source,
                [&] { check_crc_until(*tensor.record, tensor.data.data() - tensor.record->data.data() + end); });
}

void DcpReader::verify_box(const DcpSource& source) const {
  const DcpRange& range = source.range();
  bool& is_complete = verified_[{range.file, range.offset}].is_complete;
  if (is_complete) return;
  const TorchArchive& archive = source.box != nullptr ? *open(source).box.archive : *source.archive;
  with_location(source, [&] { archive.verify(); });
  is_complete = true;
  if (source.box != nullptr) close(*source.box);
  dcp_.release(range);
}

void DcpReader::verify_slice(std::size_t index, const Slice& slice) const {
  for (const TensorPiece& piece : maps_[index].pieces) {
    if (boxes_meet(piece.box, slice)) verify_box(maps_[index].sources[piece.file]);
  }
}

void DcpReader::verify() const {
  for (const TensorMap& map : maps_) {
    for (const DcpSource& source : map.sources) verify_box(source);
  }
}

std::vector<NonfiniteTensor> DcpReader::find_nonfinite(std::size_t index) const {
  std::vector<NonfiniteTensor> found = TensorReader::find_nonfinite(index);
  for (NonfiniteTensor& tensor : found) tensor.name = printable_text(*maps_[index].sources[0].key);
  return found;
}

std::string DcpReader::stored_name(std::size_t index) const {
  const DcpSource& source = maps_[index].sources[0];
  return cat("'", printable_text(*source.key), "' in ", fs::path(dcp_.file_of(source.range())).filename().string());
}

}  // namespace mtl
