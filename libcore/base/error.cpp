#include "base/error.h"

#include <cerrno>
#include <cstring>

#include "base/files.h"

namespace mtl {

void fail_errno(const std::string& path, const std::string& action) {
  int code = errno;
  const std::string remedy = code == ENOSPC || code == EDQUOT ? full_disk_remedy(path) : "";
  throw SystemError(path, cat("cannot ", action, ": ", std::strerror(code), remedy), code);
}

}  // namespace mtl
