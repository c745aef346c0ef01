// How much of an open file is in the page cache.
#pragma once

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/error.h"

namespace mtl::test {

/// Throws Error if the kernel does not say it.
inline std::uint64_t cached_bytes(int descriptor) {
  struct stat info {};
  require(::fstat(descriptor, &info) == 0, "fstat fails");
  const auto bytes = static_cast<std::size_t>(info.st_size), page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (bytes == 0) return 0;
  void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  require(data != MAP_FAILED, "mmap fails");
  std::vector<unsigned char> pages((bytes + page - 1) / page);
  const bool is_known = ::mincore(data, bytes, pages.data()) == 0;
  ::munmap(data, bytes);
  require(is_known, "mincore fails");
  return page * static_cast<std::uint64_t>(std::ranges::count_if(pages, [](auto each) { return each & 1; }));
}

}  // namespace mtl::test
