// Compares a checkpoint's manifest with the files in its folder.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "base/count_of.h"
#include "base/files.h"
#include "ckpt/manifest.h"

namespace mtl {

namespace {

constexpr std::size_t kMaxManifestBytes = 256 << 20;

/// Lists the tensors in a file, as in "param.a, param.b and 27 more tensors".
std::string tensors_of(const Manifest& manifest, const std::string& file) {
  std::vector<std::string> names;
  for (const ManifestTensor& entry : manifest.tensors) {
    for (const ManifestPiece& piece : entry.pieces) {
      if (piece.file == file) names.push_back(entry.tensor.name);
    }
  }
  return names.empty() ? "no tensors" : join_first(std::move(names), 2, "tensor");
}

}  // namespace

Manifest read_sound_manifest(const std::string& folder) {
  std::string path = cat(folder, "/", kManifestName);
  if (::access(path.c_str(), R_OK) != 0 && errno == EACCES) fail_errno(path, "open");
  if (!file_exists(path)) fail(Exit::bad_data, path, " is missing, so the checkpoint is not complete");
  if (file_size(path) > kMaxManifestBytes)
    fail(Exit::bad_data, path, " is larger than ", human_bytes(kMaxManifestBytes), ", so it is not a manifest");
  const std::string text = read_regular_file(path);
  Manifest manifest = with_prefix([&] { return parse_manifest(text); }, path, ": ");
  for (const ManifestFile& file : manifest.files) {
    std::string full = cat(folder, "/", file.name);
    if (!file_exists(full)) fail(Exit::bad_data, full, " is missing; it contains ", tensors_of(manifest, file.name));
    std::uint64_t bytes = file_size(full);
    if (bytes != file.bytes) {
      const MappedFile not_a_pointer(full);  // a Git LFS pointer is no damage, and throws its own error
      fail(Exit::bad_data, full, " has ", bytes, " bytes instead of ", file.bytes, "; it contains ",
           tensors_of(manifest, file.name));
    }
  }
  std::set<std::string_view> listed;
  for (const ManifestFile& file : manifest.files) listed.insert(file.name);
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    if (ends_with(name, ".safetensors") && !listed.contains(name)) {
      fail(Exit::bad_data, folder, "/", name, " is not in the manifest; remove it");
    }
  }
  return manifest;
}

}  // namespace mtl
