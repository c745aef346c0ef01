// Moves a folder that its file system cannot rename: one of a container's image in overlayfs, or one on another disk.
#pragma once

#include <string>

namespace mtl {

/// Copies a folder to `to`, which must not exist, syncs the copy, and then removes the folder. Whenever this ends, the
/// folder or the copy is complete. Entries keep their rights. Throws Error(io).
void move_folder_by_copy(const std::string& from, const std::string& to);

}  // namespace mtl
