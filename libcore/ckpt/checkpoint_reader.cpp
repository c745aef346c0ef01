// Reads a committed checkpoint's tensors through its manifest.
#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "base/files.h"
#include "base/find.h"
#include "base/mapped_faults.h"
#include "base/mapped_pages.h"
#include "ckpt/manifest.h"
#include "formats/safetensors.h"
#include "models/hf_config.h"
#include "models/tensor_reader.h"

namespace mtl {

namespace {

/// Copies the elements that the slices `piece` and `want` have in common. `from` contains all elements of `piece`; `to`
/// contains all elements of `want`. Returns the number of copied elements.
std::int64_t copy_overlap(const Slice& piece, std::span<const std::byte> from, const Slice& want,
                          std::span<std::byte> to, std::size_t element_bytes) {
  if (want.count() == 0) return 0;
  if (piece == want) {
    std::memcpy(to.data(), from.data(), to.size());
    return want.count();
  }
  std::int64_t copied = 0;
  for_each_overlap(piece, want, [&](const Overlap& run) {
    std::memcpy(to.data() + run.in_b * element_bytes, from.data() + run.in_a * element_bytes,
                run.count * element_bytes);
    copied += run.count;
  });
  return copied;
}

/// Opens a shard only when one of its tensors is first needed, because a rank in a large run needs few shards.
class CheckpointReader : public TensorReader {
 public:
  explicit CheckpointReader(const std::string& path) : manifest_(read_sound_manifest(path)) {
    config = manifest_.config;
    folder = path;
    state = manifest_.state;
    if (const Json* kept = state->extra.find("hf_config")) hf_config = *kept;
    read_dropout();
    for (const ManifestTensor& entry : manifest_.tensors) {
      tensors.push_back(entry.tensor);
      verified_.emplace_back(entry.pieces.size());
      for (const ManifestPiece& piece : entry.pieces) shard_tensors_[piece.file].push_back({&entry, &piece});
    }
    check_complete();
    for (const ManifestTensor& entry : manifest_.tensors) check_pieces(entry);
  }

  void read(std::size_t index, const Slice& slice, std::span<std::byte> out) const override {
    verify_slice(index, slice);
    const ManifestTensor& entry = manifest_.tensors[index];
    std::size_t element = bits_of(entry.tensor.dtype) / 8;
    std::int64_t copied = 0;
    for (const ManifestPiece& piece : entry.pieces) {
      if (share_elements(piece.slice, slice))
        copied += copy_overlap(piece.slice, data_of(entry, piece), slice, out, element);
    }
    // A file may have been truncated after its verification. The mapping then reads as zeros from the end of the file
    // to the end of the page.
    for (const ManifestPiece& piece : entry.pieces) {
      const SafetensorsFile* open = find_or_null(shards_, piece.file);
      if (open != nullptr) check_mapped_size(open->path(), open->bytes().size());
    }
    require(copied == slice.count(), folder, ": tensor '", entry.tensor.name,
            "' has no data for a part of the requested slice");
    unreleased_ += out.size();
    if (unreleased_ < kMappedPages) return;
    unreleased_ = 0;
    for (const auto& [name, file] : shards_) release_pages(file.bytes());
  }

  void verify_slice(std::size_t index, const Slice& slice) const override {
    const ManifestTensor& entry = manifest_.tensors[index];
    std::int64_t element = bits_of(entry.tensor.dtype) / 8;
    for (std::size_t p = 0; p < entry.pieces.size(); ++p) {
      const ManifestPiece& piece = entry.pieces[p];
      std::int64_t block = block_bytes(entry, piece);
      for_each_overlap(piece.slice, slice, [&](const Overlap& run) {
        std::int64_t last = ((run.in_a + run.count) * element - 1) / block;
        for (std::int64_t b = run.in_a * element / block; b <= last; ++b) verify_block(index, p, b);
      });
    }
  }

  void verify_companions() const override {
    for (const ManifestFile& file : manifest_.files) {
      std::string path = cat(folder, "/", file.name);
      if (!shard_tensors_.contains(file.name) && hash_text(hash_file(path)) != file.hash) refuse(path, "");
    }
  }

  void verify() const override {
    verify_companions();
    for (const auto& [name, contents] : shard_tensors_) {
      if (hash_text(hash_mapped(shard(name).bytes())) != manifest_.find_file(name)->hash)
        refuse(shard(name).path(), damaged_tensors(name));
    }
  }

  std::string identity() const override {
    return cat(kManifestName, ": ", hash_text(hash_file(cat(folder, "/", kManifestName))));
  }

 private:
  struct ShardTensor {
    const ManifestTensor* entry;
    const ManifestPiece* piece;
  };

  [[noreturn]] static void refuse(const std::string& path, const std::string& where) {
    fail(Exit::bad_data, path, " does not match its hash in the manifest", where,
         "; load another checkpoint, because the file is damaged or was replaced");
  }

  std::int64_t block_bytes(const ManifestTensor& entry, const ManifestPiece& piece) const {
    return piece.blocks.empty() ? std::max<std::int64_t>(1, stored_bytes(entry, piece)) : manifest_.block_bytes;
  }

  std::span<const std::byte> data_of(const ManifestTensor& entry, const ManifestPiece& piece) const {
    const SafetensorsFile& file = shard(piece.file);
    return file.data(*file.find(entry.tensor.name));
  }

  /// Returns a shard. The first call for a shard opens the file and checks that it contains exactly the pieces that the
  /// manifest lists.
  const SafetensorsFile& shard(const std::string& name) const {
    if (const SafetensorsFile* open = find_or_null(shards_, name)) return *open;
    SafetensorsFile file(cat(folder, "/", name));
    for (const auto& [entry, piece] : shard_tensors_.at(name)) {
      const StoredTensor* stored = file.find(entry->tensor.name);
      auto refuse_piece = [&, name = &entry->tensor.name](const char* what) {
        fail(Exit::bad_data, file.path(), ": tensor '", *name, "' ", what);
      };
      if (stored == nullptr)
        refuse_piece("is missing, but the manifest lists it in this file; load another checkpoint");
      if (stored->dtype != entry->tensor.dtype || stored->shape != stored_shape(piece->slice))
        refuse_piece("differs from the manifest in shape or dtype; load another checkpoint");
    }
    if (file.tensors().size() != shard_tensors_.at(name).size())
      fail(Exit::bad_data, file.path(),
           " contains tensors that the manifest does not list in this file; load another checkpoint");
    return shards_.emplace(name, std::move(file)).first->second;
  }

  void read_dropout() {
    const Json* record = state->extra.find("dropout");
    if (record == nullptr && hf_config.is_null()) return;
    dropout = with_prefix([&] { return record != nullptr ? dropout_from_json(*record) : dropout_from_hf(hf_config); },
                          folder, "/", kManifestName, ": ");
  }

  /// Throws if two pieces overlap. parse_manifest() has counted the elements, so pieces that do not overlap cover the
  /// entire tensor.
  void check_pieces(const ManifestTensor& entry) const {
    with_prefix([&] { check_disjoint(entry); }, folder, "/", kManifestName, ": tensor '", entry.tensor.name, "': ");
  }

  /// Verifies the hash of a block in piece `p`, unless an earlier call did.
  void verify_block(std::size_t index, std::size_t p, std::int64_t number) const {
    const ManifestTensor& entry = manifest_.tensors[index];
    const ManifestPiece& piece = entry.pieces[p];
    std::vector<bool>& verified = verified_[index][p];
    std::size_t at = number;
    if (verified.empty()) verified.resize(std::max<std::size_t>(1, piece.blocks.size()));
    if (verified[at]) return;
    std::span<const std::byte> data = data_of(entry, piece);
    std::size_t length = block_bytes(entry, piece), begin = at * length;
    data = data.subspan(begin, std::min(length, data.size() - begin));
    if (hash_text(hash_bytes(data.data(), data.size())) != (piece.blocks.empty() ? piece.hash : piece.blocks[at])) {
      refuse(shard(piece.file).path(),
             cat(" (tensor '", entry.tensor.name, "', bytes ", begin, " to ", begin + data.size() - 1, ")"));
    }
    verified[at] = true;
    bytes_read_ += data.size();
  }

  /// Returns a shard's damaged tensors as text, such as " (tensors 'a', 'b')", or " (in the header)" if no tensor is
  /// damaged.
  std::string damaged_tensors(const std::string& file) const {
    std::vector<std::string> names;
    for (const auto& [entry, piece] : shard_tensors_.at(file)) {
      std::span<const std::byte> data = data_of(*entry, *piece);
      if (hash_text(hash_bytes(data.data(), data.size())) != piece->hash)
        names.push_back("'" + entry->tensor.name + "'");
    }
    if (names.empty()) return " (in the header)";
    if (names.size() > 3) return cat(" (tensors ", names[0], ", ", names[1], " and ", names.size() - 2, " more)");
    return cat(names.size() == 1 ? " (tensor " : " (tensors ", join(names, ", "), ")");
  }

  Manifest manifest_;
  std::map<std::string, std::vector<ShardTensor>> shard_tensors_;  // by name of the shard
  mutable std::map<std::string, SafetensorsFile> shards_;          // shards opened so far, by name
  mutable std::vector<std::vector<std::vector<bool>>> verified_;   // [tensor][piece][block]; empty before the first use
  mutable std::size_t unreleased_ = 0;                             // bytes read since pages were last released
};

}  // namespace

std::unique_ptr<TensorReader> open_checkpoint(const std::string& folder) {
  return std::make_unique<CheckpointReader>(folder);
}

}  // namespace mtl
