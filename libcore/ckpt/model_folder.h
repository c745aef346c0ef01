// Examines folders for programs that are about to replace one: is it one model, or one run's checkpoints, and nothing
// else? What belongs to a model is in the table of formats. A save folder of mtl-train contains iter_*, the tracker,
// the lock, run_id, and leftovers of an interrupted save; Megatron-LM's, release or iter_*, the tracker and companion
// files. Symbolic links inside a folder are never part of a model.
#pragma once

#include <string>

#include "ckpt/model_formats.h"

namespace mtl {

struct FolderContents {
  std::string kind;             // "a Hugging Face model"; empty if not recognized
  std::string problem;          // why not to replace the folder: "contains ..."; empty if only a model is lost
  bool is_save_folder = false;  // the folder's lock must be held while replacing it
};

/// Examines an existing folder. Throws Error(io) if the folder cannot be listed.
FolderContents examine_model_folder(const std::string& path, ModelFormats formats = model_formats());

/// Returns why a killed conversion's leftover must not be removed, or "" if it can be. For a file, this is "is a file".
/// For a folder, it is the first entry that no conversion writes in any format, and that no folder contains which a
/// conversion replaces: "contains 'notes.txt', which is not part of a model". A symbolic link can always be removed.
std::string find_foreign_entry(const std::string& path, ModelFormats formats = model_formats());

}  // namespace mtl
