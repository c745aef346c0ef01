// What Git leaves in place of a file whose content Git LFS has not downloaded.
#pragma once

#include <cstdint>
#include <string>

#include "base/str.h"

namespace mtl::test {

inline std::string lfs_pointer(std::int64_t bytes) {
  return cat("version https://git-lfs.github.com/spec/v1\noid sha256:", std::string(64, 'a'), "\nsize ", bytes, "\n");
}

}  // namespace mtl::test
