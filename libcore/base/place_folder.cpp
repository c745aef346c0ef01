#include "base/place_folder.h"

#include "base/files.h"

namespace mtl {

void place_folder(const std::string& staged, const std::string& path, bool replaces) {
  if (replaces) {
    exchange_paths(staged, path);
  } else {
    rename_path(staged, path);
  }
}

}  // namespace mtl
