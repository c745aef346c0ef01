// Reads the tensors of one committed checkpoint through its manifest.
#include <cstring>
#include <set>
#include <utility>

#include "base/files.h"
#include "ckpt/manifest.h"
#include "ckpt/safetensors.h"
#include "ckpt/tensor_reader.h"

namespace mtl {

namespace {

class CheckpointReader : public TensorReader {
 public:
  explicit CheckpointReader(const std::string& path) : manifest_(read_sound_manifest(path)) {
    config = manifest_.config;
    kind = "checkpoint";
    folder = path;
    state = manifest_.state;
    if (const Json* kept = state->extra.find("hf_config")) hf_config = *kept;
    for (const ManifestTensor& entry : manifest_.tensors) tensors.push_back(entry.tensor);
    check_complete();
    open_shards();
    for (const ManifestTensor& entry : manifest_.tensors) check_disjoint(entry);
  }

  void read(std::size_t index, const Slice& slice, std::span<std::byte> out) const override {
    const ManifestTensor& entry = manifest_.tensors[index];
    auto element = static_cast<std::size_t>(bits_of(entry.tensor.dtype) / 8);
    std::int64_t copied = 0;
    for (const ManifestPiece& piece : entry.pieces) {
      copied += copy_overlap(piece.slice, data_of(entry, piece), slice, out, element);
    }
    require(copied == slice.count(), folder, ": tensor '", entry.tensor.name,
            "' has no data for a part that was asked for");
  }

  void verify() const override {
    if (verified_) return;
    for (const ManifestFile& file : manifest_.files) {
      if (!shards_.contains(file.name)) {
        std::string path = cat(folder, "/", file.name);
        if (hash_text(hash_file(path)) != file.hash) refuse(path, "");
        continue;
      }
      const SafetensorsFile& shard = shards_.at(file.name);
      std::span<const std::byte> bytes = shard.bytes();
      if (hash_text(hash_bytes(bytes.data(), bytes.size())) != file.hash)
        refuse(shard.path(), damaged_tensors(file.name));
    }
    verified_ = true;
  }

 private:
  [[noreturn]] static void refuse(const std::string& path, const std::string& where) {
    fail(Exit::bad_data, path, ": its hash does not match the manifest", where,
         "; the file is damaged or another one: load another checkpoint");
  }

  std::span<const std::byte> data_of(const ManifestTensor& entry, const ManifestPiece& piece) const {
    const SafetensorsFile& shard = shards_.at(piece.file);
    return shard.data(*shard.find(entry.tensor.name));
  }

  /// Opens every shard that holds a piece, and checks that it holds exactly the pieces that the manifest says.
  void open_shards() {
    std::map<std::string, std::size_t> pieces;
    for (const ManifestTensor& entry : manifest_.tensors) {
      for (const ManifestPiece& piece : entry.pieces) {
        if (!shards_.contains(piece.file)) shards_.emplace(piece.file, SafetensorsFile(cat(folder, "/", piece.file)));
        const SafetensorsFile& shard = shards_.at(piece.file);
        const StoredTensor* stored = shard.find(entry.tensor.name);
        auto refuse_piece = [&](const char* what) {
          fail(Exit::bad_data, shard.path(), ": tensor '", entry.tensor.name, "' ", what);
        };
        if (stored == nullptr) refuse_piece("is missing; the manifest lists it there");
        if (stored->dtype != entry.tensor.dtype || stored->shape != stored_shape(piece.slice)) {
          refuse_piece("has another shape or dtype than the manifest says");
        }
        ++pieces[piece.file];
      }
    }
    for (const auto& [name, shard] : shards_) {
      if (shard.tensors().size() != pieces[name])
        fail(Exit::bad_data, shard.path(), ": holds tensors that the manifest does not list there");
    }
  }

  /// The pieces of a tensor hold as many elements as its shape; when no two overlap, nothing is left out.
  void check_disjoint(const ManifestTensor& entry) const {
    for (std::size_t i = 0; i < entry.pieces.size(); ++i) {
      for (std::size_t j = i + 1; j < entry.pieces.size(); ++j) {
        bool shared = false;
        for_each_overlap(entry.pieces[i].slice, entry.pieces[j].slice, [&](const Overlap&) { shared = true; });
        if (shared) {
          fail(Exit::bad_data, folder, "/", kManifestName, ": tensor '", entry.tensor.name, "': its pieces in ",
               entry.pieces[i].file, " and ", entry.pieces[j].file, " overlap");
        }
      }
    }
  }

  /// " (tensors a, b)", or what else of the file differs.
  std::string damaged_tensors(const std::string& file) const {
    std::vector<std::string> names;
    for (const ManifestTensor& entry : manifest_.tensors) {
      for (const ManifestPiece& piece : entry.pieces) {
        if (piece.file != file) continue;
        std::span<const std::byte> data = data_of(entry, piece);
        if (hash_text(hash_bytes(data.data(), data.size())) != piece.hash)
          names.push_back("'" + entry.tensor.name + "'");
      }
    }
    if (names.empty()) return " (in its header)";
    if (names.size() > 3) return cat(" (tensors ", names[0], ", ", names[1], " and ", names.size() - 2, " more)");
    return cat(names.size() == 1 ? " (tensor " : " (tensors ", join(names, ", "), ")");
  }

  Manifest manifest_;
  std::map<std::string, SafetensorsFile> shards_;
  mutable bool verified_ = false;
};

}  // namespace

std::int64_t copy_overlap(const Slice& piece, std::span<const std::byte> from, const Slice& want,
                          std::span<std::byte> to, std::size_t element_bytes) {
  if (want.count() == 0) return 0;
  if (piece == want) {
    std::memcpy(to.data(), from.data(), to.size());
    return want.count();
  }
  std::int64_t copied = 0;
  for_each_overlap(piece, want, [&](const Overlap& run) {
    std::memcpy(to.data() + static_cast<std::size_t>(run.in_b) * element_bytes,
                from.data() + static_cast<std::size_t>(run.in_a) * element_bytes,
                static_cast<std::size_t>(run.count) * element_bytes);
    copied += run.count;
  });
  return copied;
}

std::unique_ptr<TensorReader> open_checkpoint(const std::string& folder) {
  return std::make_unique<CheckpointReader>(folder);
}

}  // namespace mtl
