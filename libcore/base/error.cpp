#include "base/error.h"

#include <cerrno>
#include <cstring>

namespace mtl {

void fail_errno(const std::string& path, const std::string& action) {
  int code = errno;
  throw SystemError(path, cat("cannot ", action, ": ", std::strerror(code)), code);
}

}  // namespace mtl
