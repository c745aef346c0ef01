// Renames a complete folder into place.
#pragma once

#include <string>

namespace mtl {

/// Renames the folder `staged` to `path`. With `replaces`, exchanges the names of the two folders, so that the old
/// folder is then at `staged`. The caller must sync the parent folder before removing the old folder.
void place_folder(const std::string& staged, const std::string& path, bool replaces);

}  // namespace mtl
