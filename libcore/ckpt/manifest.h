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

  const ManifestFile* find_file(const std::string& name) const;
};

inline constexpr const char* kManifestName = "manifest.json";

/// The text of the file.
std::string manifest_text(const Manifest& manifest);
/// A checksum keeps damage away from all other checks, which tests and fuzzers mean to reach.
enum class ChecksumCheck { required, skip };
/// Throws Error(bad_data); errors do not name the file.
Manifest parse_manifest(std::string_view text, ChecksumCheck checksum = ChecksumCheck::required);
/// Reads FOLDER/manifest.json and checks that every file is there in its size and no other shard is. Errors name the
/// file, and the tensors it should hold.
Manifest read_sound_manifest(const std::string& folder);

/// How the piece is shaped in its file.
std::vector<std::uint64_t> stored_shape(const Slice& slice);

}  // namespace mtl
