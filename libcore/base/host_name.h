// This machine's name, for messages and files.
#pragma once

#include <unistd.h>

#include <string>

namespace mtl {

inline std::string host_name() {
  char name[256] = "";
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

}  // namespace mtl
