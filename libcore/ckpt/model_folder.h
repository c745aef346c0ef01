// Recognizes the contents of a folder, for a program that reads it or is about to replace it.
//
// Its entries show whether it is a Hugging Face folder (config.json of a supported model_type, weights, companion
// files), one checkpoint (manifest.json, shards, companion files), a folder that mtl-train saves into (iter_*, the
// tracker, the lock, run_id, leftovers of an interrupted save), or Megatron-LM's (release or iter_*, with the ranks'
// files, the tracker, companion files). Symbolic links inside a folder are never part of a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mtl {

/// The iteration in the name of a checkpoint's folder: 1000 of "iter_0001000"; empty for any other name.
std::optional<std::int64_t> iteration_in_name(const std::string& name);

struct FolderContents {
  std::string kind;     // "a Hugging Face model"; empty when nothing was recognized
  std::string problem;  // "holds ...": why replacing the folder would lose more than one model; empty if it would not
  bool is_save_folder = false;  // its lock must be held while it is replaced
};

/// Examines an existing folder. Throws Error(io) when it cannot be listed.
FolderContents examine_model_folder(const std::string& path);

/// The names in a folder, in byte order; empty when it cannot be listed.
std::vector<std::string> names_in_folder(const std::string& folder);

/// Says why the leftover of a killed conversion must not be removed: "holds 'notes.txt', which is not part of a model"
/// for the first entry that no conversion writes in any format, "is a file" for a file. Returns "" for a folder or link
/// that can be removed.
std::string find_foreign_entry(const std::string& path);

}  // namespace mtl
