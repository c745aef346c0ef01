// A checkpoint's manifest.json: the configuration, training state, tensors, files and hashes. Format:
// mtl-checkpoint(5).
//
// We do not trust manifests. The parser checks the checksum, that file names are plain, that slices lie inside their
// tensors, and that numbers are in range. checkpoint_reader.cpp checks the contents of the files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "ckpt/checkpoint.h"

namespace mtl {

/// The slice of a tensor that one file contains, under the tensor's name and in the shape that stored_shape() returns.
struct ManifestPiece {
  std::string file;
  Slice slice;
  std::string hash;  // XXH3 of the slice's bytes
  /// XXH3 of each block of Manifest::block_bytes bytes; the last block may be shorter. Loading verifies only the blocks
  /// it reads. Empty if the piece is a single block, because `hash` covers that block.
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

  /// Returns nullptr if the manifest does not list the file.
  const ManifestFile* find_file(const std::string& name) const;
};

inline constexpr const char* kManifestName = "manifest.json";

/// Returns the contents of manifest.json, including the checksum.
std::string manifest_text(const Manifest& manifest);
/// Tests and fuzzers skip the checksum to reach the checks that follow.
enum class ChecksumCheck { required, skip };
/// Parses and checks the contents of manifest.json. Throws Error(bad_data); the message does not include the file name.
Manifest parse_manifest(std::string_view text, ChecksumCheck checksum = ChecksumCheck::required);
/// Returns one rank's part of a manifest as text: the files that it wrote, and the pieces in them.
std::string manifest_part_text(const Manifest& part);
/// Adds the files and tensors in all ranks' parts to `manifest`, with the tensors in canonical order. Throws
/// Error(failure) unless the pieces contain every element of every parameter in manifest.config exactly once, and the
/// same for optimizer states if there are any. Rejects all other tensors.
void join_manifest_parts(Manifest& manifest, const std::vector<std::string>& parts);
/// Throws Error(bad_data) if two pieces share an element. parse_manifest() only counts elements, and leaves this check
/// to its caller.
void check_disjoint(const ManifestTensor& entry);

/// Reads FOLDER/manifest.json. Checks that every listed file exists and has the listed size, and that the folder has no
/// other .safetensors file. If a file is missing or has the wrong size, the error says which tensors it should contain.
/// Throws SystemError if this user may not read the manifest.
Manifest read_sound_manifest(const std::string& folder);

/// Returns the shape in which a file stores the slice: the box's shape if the element range covers the entire box,
/// otherwise 1-D.
std::vector<std::uint64_t> stored_shape(const Slice& slice);
/// Returns the piece's size in bytes in its file.
std::int64_t stored_bytes(const ManifestTensor& entry, const ManifestPiece& piece);

}  // namespace mtl
