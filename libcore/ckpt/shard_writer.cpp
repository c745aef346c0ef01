#include "ckpt/shard_writer.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/files.h"
#include "ckpt/safetensors.h"
#include "device/copy.h"

namespace mtl {

namespace {

ManifestPiece describe_piece(const std::string& file, const Slice& slice, std::span<const std::byte> bytes,
                             std::int64_t block_bytes) {
  ManifestPiece piece{.file = file, .slice = slice, .hash = hash_text(hash_bytes(bytes.data(), bytes.size()))};
  std::size_t block = block_bytes;
  if (bytes.size() <= block) return piece;
  for (std::size_t at = 0; at < bytes.size(); at += block)
    piece.blocks.push_back(hash_text(hash_bytes(bytes.data() + at, std::min(block, bytes.size() - at))));
  return piece;
}

}  // namespace

std::vector<TensorToSave> tensors_to_save(const ParamMemory& store) {
  std::vector<TensorToSave> tensors;
  auto view = std::make_shared<std::optional<HostView>>();  // view of the tensor whose `bytes` was called last
  for (std::size_t row = 0; row < store.table().size(); ++row) {
    const std::string& kind = store.table()[row].kind;
    if (kind.empty()) continue;
    for (int i = 0; i < store.size(); ++i) {
      const ParamSpec& spec = store.specs()[i];
      Slice slice = store.owned_slice(i);
      if (!store.writes(i) || slice.count() == 0) continue;
      Tensor memory = store.owned(i, row).flat(0, slice.count());  // without padding rows
      tensors.push_back({{cat(kind, ".", spec.name), stored_dtype_of(memory.dtype()), spec.shape},
                         std::move(slice),
                         [view, memory, location = store.location_of(row)] {
                           view->emplace(location, memory).receive();
                           return (*view)->bytes();
                         }});
    }
  }
  return tensors;
}

std::string find_nonfinite(const std::vector<TensorToSave>& tensors) {
  for (const TensorToSave& item : tensors) {
    if (count_nonfinite(item.tensor.dtype, item.bytes()) > 0) return item.tensor.name;
  }
  return "";
}

std::string shard_name(int rank) { return format("shard_%05d.safetensors", rank); }

Manifest write_shard(const std::string& folder, int rank, const std::vector<TensorToSave>& tensors,
                     std::int64_t block_bytes) {
  Manifest part;
  if (tensors.empty()) return part;
  std::string name = shard_name(rank);
  OutputFile out(cat(folder, "/", name));
  std::vector<StoredTensor> plan;
  for (const TensorToSave& item : tensors)
    plan.push_back({.name = item.tensor.name, .dtype = item.tensor.dtype, .shape = stored_shape(item.slice)});
  SafetensorsWriter writer(out, plan);
  for (const TensorToSave& item : tensors) {
    std::span<const std::byte> bytes = item.bytes();
    require(std::ssize(bytes) * 8 == item.slice.count() * bits_of(item.tensor.dtype), "saving '", item.tensor.name,
            "': ", bytes.size(), " bytes for ", item.slice.count(), " elements");
    writer.write(bytes);
    part.tensors.push_back({item.tensor, {describe_piece(name, item.slice, bytes, block_bytes)}});
  }
  writer.finish();
  out.sync();
  out.close();
  part.files.push_back({.name = name, .bytes = out.bytes(), .hash = hash_text(out.hash())});
  return part;
}

}  // namespace mtl
