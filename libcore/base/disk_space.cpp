#include "base/disk_space.h"

#include <sys/resource.h>

#include <filesystem>
#include <system_error>

namespace mtl {

std::optional<std::uint64_t> free_disk_bytes(const std::string& folder) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  if (error || space.capacity == 0) return {};
  return space.available;
}

std::optional<std::uint64_t> file_size_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return limit.rlim_cur;
}

}  // namespace mtl
