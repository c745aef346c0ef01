// Renames a complete folder into place.
#pragma once

#include <string>

namespace mtl {

/// Renames the folder `staged` to `path`. With `replaces`, exchanges the two names, so that the old folder ends up at
/// `staged`. The caller must sync the parent folder before removing the old one.
void place_folder(const std::string& staged, const std::string& path, bool replaces);

}  // namespace mtl
