#include "ckpt/dcp_reader.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/printable.h"

namespace mtl {

namespace {

/// True if a box shares an index with the box of a slice.
bool meets(const Slice& box, const Slice& slice) {
  for (std::size_t axis = 0; axis < box.offset.size(); ++axis) {
    if (box.offset[axis] >= slice.offset[axis] + slice.size[axis] ||
        slice.offset[axis] >= box.offset[axis] + box.size[axis])
      return false;
  }
  return true;
}

/// Open archives with the dense contents of their chunks.
struct OpenChunks {
  std::vector<std::unique_ptr<TorchArchive>> archives;
  std::vector<std::vector<std::byte>> copies;  // of tensors that are not contiguous in their archive
  std::vector<std::span<const std::byte>> contents;

  void add(DcpFolder::OpenChunk chunk) {
    const TorchTensor& tensor = *chunk.tensor;
    const std::size_t bytes = tensor.count() * bits_of(tensor.dtype) / 8;
    if (bytes == 0 || tensor.is_contiguous()) {
      contents.push_back(tensor.data.first(bytes));
    } else {
      std::vector<std::byte>& copy = copies.emplace_back(bytes);
      read_elements(tensor, 0, copy);
      contents.push_back(copy);
    }
    archives.push_back(std::move(chunk.archive));
  }
};

}  // namespace

void DcpReader::add_tensor(SavedTensor tensor, Places places) {
  tensors.push_back(std::move(tensor));
  places_.push_back(std::move(places));
}

void DcpReader::read(std::size_t index, const Slice& slice, std::span<std::byte> out) const {
  // In steps, after each of which the archives leave memory: a tensor is then in memory once, not twice.
  constexpr std::size_t kStepBytes = std::size_t{32} << 20;
  const std::size_t element = bits_of(tensors[index].dtype) / 8;
  Slice step = slice;
  for (std::size_t done = 0; done < out.size(); done += kStepBytes) {
    const std::size_t bytes = std::min(kStepBytes, out.size() - done);
    step.begin = slice.begin + static_cast<std::int64_t>(done / element);
    step.end = step.begin + static_cast<std::int64_t>(bytes / element);
    gather(places_[index], tensors[index].dtype, step, out.subspan(done, bytes));
  }
  bytes_read_ += out.size();
}

void DcpReader::gather(const Places& from, StoredDType dtype, const Slice& slice, std::span<std::byte> out) const {
  OpenChunks open;
  std::map<std::size_t, std::size_t> opened;  // by index into from.sources
  std::vector<TensorPiece> pieces;
  for (const TensorPiece& piece : from.pieces) {
    if (!meets(piece.box, slice)) continue;
    const auto [found, is_new] = opened.emplace(piece.file, open.contents.size());
    const DcpSource& source = from.sources[piece.file];
    if (is_new && source.view != nullptr) {
      open.contents.push_back(source.view->data);
    } else if (is_new) {
      open.add(dcp_.open_chunk(*source.key, *source.tensor, *source.chunk));
    }
    pieces.push_back(piece);
    pieces.back().file = found->second;
  }
  gather_slice(pieces, slice, bits_of(dtype) / 8, open.contents, out);
  // A truncated file reads as zeros beyond its end, in the last page.
  for (const auto& [source, content] : opened) {
    dcp_.check_size(from.sources[source].place());
    dcp_.release(from.sources[source].place());
  }
}

void DcpReader::verify_chunk(const DcpSource& source) const {
  const DcpPlace& place = source.place();
  if (!verified_.emplace(place.file, place.offset).second) return;
  DcpFolder::OpenChunk open;
  if (source.chunk != nullptr) open = dcp_.open_chunk(*source.key, *source.tensor, *source.chunk);
  try {
    (source.chunk != nullptr ? *open.archive : *source.archive).verify();
  } catch (const Error& error) {
    fail_at(Exit::bad_data, dcp_.file_of(place), "the archive of '", printable_text(*source.key), "' at offset ",
            place.offset, ": ", error.what());
  }
  dcp_.release(place);
}

void DcpReader::verify_slice(std::size_t index, const Slice& slice) const {
  for (const TensorPiece& piece : places_[index].pieces) {
    if (meets(piece.box, slice)) verify_chunk(places_[index].sources[piece.file]);
  }
}

void DcpReader::verify() const {
  for (const Places& places : places_) {
    for (const DcpSource& source : places.sources) verify_chunk(source);
  }
}

std::vector<NonfiniteTensor> DcpReader::find_nonfinite(std::size_t index) const {
  std::vector<NonfiniteTensor> found = TensorReader::find_nonfinite(index);
  for (NonfiniteTensor& tensor : found) tensor.name = printable_text(*places_[index].sources[0].key);
  return found;
}

std::string DcpReader::stored_name(std::size_t index) const {
  const DcpSource& source = places_[index].sources[0];
  return cat("'", printable_text(*source.key), "' in ", fs::path(dcp_.file_of(source.place())).filename().string());
}

}  // namespace mtl
