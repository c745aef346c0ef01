#include "cli/share_files.h"

#include "base/files.h"

namespace mtl {

std::string share_folder() {
  std::error_code error;  // without /proc: then this is a package's program, in a chroot
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return (error ? fs::path("/usr") : program.parent_path().parent_path()) / "share/mtl";
}

std::string share_file(const std::string& name) {
  const std::string path = share_folder() + "/" + name;
  if (!file_exists(path))
    fail_at(Exit::io, path,
            "does not exist; the programs look for installed files in share/mtl beside their folder: "
            "install mtl again, or name the file that you have");
  return path;
}

}  // namespace mtl
