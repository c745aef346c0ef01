// manifest.json of a checkpoint: what it holds, where, and how to tell that it is whole. Format: mtl-checkpoint(5).
//
// A manifest is untrusted input: the reader checks the checksum of its text, that file names are plain, that slices
// lie inside their tensors, and that numbers are in range. What needs the files themselves is the reader's work
// (checkpoint_reader.cpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "ckpt/checkpoint.h"

namespace mtl {

/// A slice of a tensor in one file, stored there under the tensor's name: in the shape of the slice's box when it is
/// all of it, flat otherwise.
struct ManifestPiece {
  std::string file;
  Slice slice;
  std::string hash;  // XXH3 of its bytes, so that damage can be pinned on a tensor
  /// XXH3 of each of its blocks of Manifest::block_bytes (the last is shorter), so that who needs a part need not read
  /// the rest. Empty when it is one block, as `hash` says.
  std::vector<std::string> blocks = {};
};

struct ManifestTensor {
  SavedTensor tensor;
  std::vector<ManifestPiece> pieces;
};

struct ManifestFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string hash;
};

struct Manifest {
  GptConfig config;
  TrainState state;
  std::vector<ManifestTensor> tensors;
  std::vector<ManifestFile> files;
  Json provenance;
  std::int64_t block_bytes = 0;  // 0, as in old checkpoints: every piece is one block

  const ManifestFile* find_file(const std::string& name) const;
};

inline constexpr const char* kManifestName = "manifest.json";

/// The text of the file.
std::string manifest_text(const Manifest& manifest);
/// A checksum keeps damage away from all other checks, which tests and fuzzers mean to reach.
enum class ChecksumCheck { required, skip };
/// Throws Error(bad_data); errors do not name the file.
Manifest parse_manifest(std::string_view text, ChecksumCheck checksum = ChecksumCheck::required);
/// One rank's part of a manifest, as text: the files that it wrote and the pieces in them.
std::string manifest_part_text(const Manifest& part);
/// Adds the parts of all ranks; tensors come in canonical order. Throws Error(failure) unless the pieces hold every
/// element of every parameter of whole.config once, and of its moments when there are any.
void join_manifest_parts(Manifest& whole, const std::vector<std::string>& parts);
/// Throws Error(bad_data) when an element of the tensor is in two pieces. (The parser has counted them.)
void check_disjoint(const ManifestTensor& entry);

/// Reads FOLDER/manifest.json and checks that every file is there in its size and no other shard is. Errors name the
/// file, and the tensors it should hold.
Manifest read_sound_manifest(const std::string& folder);

/// How the piece is shaped in its file.
std::vector<std::uint64_t> stored_shape(const Slice& slice);
std::int64_t stored_bytes(const ManifestTensor& entry, const ManifestPiece& piece);

}  // namespace mtl
