#include "ckpt/shard_writer.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/files.h"
#include "device/copy.h"
#include "formats/safetensors.h"
#include "formats/slice_steps.h"

namespace mtl {

namespace {

constexpr std::size_t kRowAlignment = 64;  // bytes; as in the memory of parameters

/// Writes the elements of a slice, and hashes them while they are in the cache.
ManifestPiece write_piece(SafetensorsWriter& writer, const std::string& file, const Slice& slice,
                          std::span<const std::byte> bytes, std::size_t block_bytes) {
  ManifestPiece piece{.file = file, .slice = slice, .hash = ""};
  const bool has_blocks = bytes.size() > block_bytes;
  Hasher whole;
  while (!bytes.empty()) {
    std::span<const std::byte> block = bytes.first(std::min(block_bytes, bytes.size()));
    bytes = bytes.subspan(block.size());
    Hasher of_block;
    while (!block.empty()) {
      const std::span<const std::byte> step = block.first(std::min(kStepBytes, block.size()));
      block = block.subspan(step.size());
      writer.write(step);
      whole.update(step.data(), step.size());
      if (has_blocks) of_block.update(step.data(), step.size());
    }
    if (has_blocks) piece.blocks.push_back(hash_text(of_block.digest()));
  }
  piece.hash = hash_text(whole.digest());
  return piece;
}

}  // namespace

std::vector<TensorToSave> tensors_to_save(const ParamMemory& params, bool states, std::span<std::byte> copy) {
  std::vector<TensorToSave> tensors;
  auto view = std::make_shared<std::optional<HostView>>();  // view of the tensor whose `bytes` was called last
  const bool copies = !copy.empty();
  std::size_t copied = 0;
  for (std::size_t row = 0; row < params.table().size(); ++row) {
    const std::string& kind = params.table()[row].kind;
    if (kind.empty() || (!states && kind != kParamKind)) continue;
    copied = (copied + kRowAlignment - 1) / kRowAlignment * kRowAlignment;  // rows have different dtypes
    for (int i = 0; i < params.size(); ++i) {
      const ParamSpec& spec = params.specs()[i];
      Slice slice = params.owned_slice(i);
      if (!params.writes(i) || slice.count() == 0 || !params.holds(i, row)) continue;
      Tensor memory = params.owned(i, row).flat(0, slice.count());  // without padding rows
      const Location location = params.location_of(row);
      TensorToSave item{{cat(kind, ".", spec.name), stored_dtype_of(memory.dtype()), spec.shape}, std::move(slice), {}};
      if (copies) {
        require(copied + memory.bytes() <= copy.size(), "a copy of ", copy.size(), " bytes is too small for a save");
        const std::span<std::byte> part = copy.subspan(copied, memory.bytes());
        copied += part.size();
        receive(part, location, memory);
        item.bytes = [part] { return part; };
      } else {
        item.bytes = [view, memory, location] {
          view->emplace(location, memory).receive();
          return (*view)->bytes();
        };
      }
      tensors.push_back(std::move(item));
    }
  }
  return tensors;
}

void require_finite(std::vector<TensorToSave>& tensors, const std::string& what) {
  for (TensorToSave& item : tensors) {
    item.bytes = [what, tensor = item.tensor, bytes = std::move(item.bytes)] {
      const std::span<const std::byte> elements = bytes();
      if (count_nonfinite(tensor.dtype, elements) > 0)
        fail(Exit::failure, what, " was not saved, because tensor '", tensor.name,
             "' contains NaN or infinity; resume from an earlier checkpoint with a lower --lr");
      return elements;
    };
  }
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
    part.tensors.push_back({item.tensor, {write_piece(writer, name, item.slice, bytes, block_bytes)}});
  }
  writer.finish();
  out.sync();
  out.close();
  part.files.push_back({.name = name, .bytes = out.bytes(), .hash = hash_text(out.hash())});
  return part;
}

}  // namespace mtl
