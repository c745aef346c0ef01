// Renames a complete folder into place.
#pragma once

#include <string>

namespace mtl {

/// Renames `staged` to `path`. With `replaces` the two exchange their names, so that the old folder is then at
/// `staged`. The caller syncs their parent folder before it removes anything.
void place_folder(const std::string& staged, const std::string& path, bool replaces);

}  // namespace mtl
