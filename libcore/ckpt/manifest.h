// manifest.json of a checkpoint: its configuration, state, tensors, files and hashes. Format: mtl-checkpoint(5).
//
// A manifest is untrusted input: the parser checks the checksum of its text, that file names are plain, that slices
// lie inside their tensors, and that numbers are in range. checkpoint_reader.cpp checks the files' contents.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "ckpt/checkpoint.h"

namespace mtl {

/// A slice of a tensor, stored in one file under the tensor's name, in the shape that stored_shape() returns.
struct ManifestPiece {
  std::string file;
  Slice slice;
  std::string hash;  // XXH3 of its bytes
  /// XXH3 of each block of Manifest::block_bytes (the last may be shorter): a load verifies only the blocks that it
  /// reads. Empty when the piece is one block, which `hash` covers.
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
  std::int64_t block_bytes = 0;  // 0: every piece is one block, as in old checkpoints

  /// Returns nullptr if the manifest lists no such file.
  const ManifestFile* find_file(const std::string& name) const;
};

inline constexpr const char* kManifestName = "manifest.json";

/// Returns the content of manifest.json, with its checksum.
std::string manifest_text(const Manifest& manifest);
/// Tests and fuzzers skip the checksum to reach the checks after it.
enum class ChecksumCheck { required, skip };
/// Parses and checks the content of manifest.json. Throws Error(bad_data) that does not name the file.
Manifest parse_manifest(std::string_view text, ChecksumCheck checksum = ChecksumCheck::required);
/// One rank's part of a manifest, as text: the files that it wrote and the pieces in them.
std::string manifest_part_text(const Manifest& part);
/// Adds the files and tensors of all ranks' parts to `manifest`, tensors in canonical order. Throws Error(failure)
/// unless the pieces hold every element of every parameter of manifest.config exactly once, likewise of the optimizer
/// states when there are any, and no other tensors.
void join_manifest_parts(Manifest& manifest, const std::vector<std::string>& parts);
/// Throws Error(bad_data) when two pieces share an element. parse_manifest only counts elements and leaves this check
/// to the caller.
void check_disjoint(const ManifestTensor& entry);

/// Reads FOLDER/manifest.json and checks that every listed file exists with the listed size and that the folder has no
/// other .safetensors file. Errors name the file and the tensors that it should hold. Throws SystemError if this user
/// may not read the manifest.
Manifest read_sound_manifest(const std::string& folder);

/// The shape under which a file stores the slice: its box when the element range covers the box, flat otherwise.
std::vector<std::uint64_t> stored_shape(const Slice& slice);
/// Bytes of the piece in its file.
std::int64_t stored_bytes(const ManifestTensor& entry, const ManifestPiece& piece);

}  // namespace mtl
