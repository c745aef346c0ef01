#include "base/error.h"

#include <cerrno>
#include <cstring>

namespace mtl {

void fail_errno(const std::string& path, const std::string& action) {
  int code = errno;
  fail(Exit::io, path, ": cannot ", action, ": ", std::strerror(code));
}

}  // namespace mtl
