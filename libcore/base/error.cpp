#include "base/error.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/files.h"

namespace mtl {

namespace {

/// Returns what to do about a failed system call, or "" if its error says enough.
std::string remedy_for(int code, const std::string& path) {
  if (code == ENOSPC || code == EDQUOT) return full_disk_remedy(path);
  if (code == EMFILE)
    return "; raise the limit on open files (ulimit -n, and its hard limit ulimit -Hn), or use fewer files at a time";
  std::error_code unknown;
  if (code == ENOENT && fs::is_symlink(path, unknown))
    return cat("; it is a symbolic link to ", fs::read_symlink(path, unknown).string(),
               ", which does not exist; remove or correct the link");
  return "";
}

}  // namespace

void fail_errno(const std::string& path, const std::string& action) {
  int code = errno;
  throw SystemError(path, cat("cannot ", action, ": ", std::strerror(code), remedy_for(code, path)), code);
}

}  // namespace mtl
