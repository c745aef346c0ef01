#include "base/memory_limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/str.h"

namespace mtl {

namespace {

/// Returns a kernel file's content, or "" if there is no such file. Ignores the file size, which is always 0.
std::string read_source(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns the number in a file, or nullopt if the file is missing or says something else, such as "max".
std::optional<std::uint64_t> read_number(const std::string& path) {
  const auto number = parse_int(trim(read_source(path)));
  if (!number || *number < 0) return {};
  return static_cast<std::uint64_t>(*number);
}

/// Finds a line that begins with `key`, like "MemAvailable:   123 kB" or "inactive_file 4096", and returns its number.
std::optional<std::uint64_t> find_number(const std::string& text, const std::string& key) {
  for (const std::string& line : split(text, '\n')) {
    if (!starts_with(line, key)) continue;
    std::string_view rest = trim(std::string_view(line).substr(key.size()));
    const auto number = parse_int(rest.substr(0, rest.find(' ')));
    if (number && *number >= 0) return static_cast<std::uint64_t>(*number);
  }
  return {};
}

std::uint64_t remaining(std::uint64_t limit, std::uint64_t used) { return limit > used ? limit - used : 0; }

/// File names and memory.stat keys for one cgroup version.
struct CgroupFiles {
  const char *limit, *usage, *inactive, *active;
};
constexpr CgroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ",
                                "total_active_file "};
constexpr CgroupFiles kVersion2{"memory.max", "memory.current", "inactive_file ", "active_file "};
/// Without a limit, version 1 reports the largest multiple of the page size, which exceeds this value.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;

/// Appends the limits of a cgroup and its ancestors to `out`. In a container, `path` may exist only on the host; then
/// the mount point itself is the container's cgroup.
void add_cgroups(const std::string& mount, std::string path, const CgroupFiles& files, std::vector<MemoryLimit>& out) {
  for (;;) {
    const std::string folder = mount + (path == "/" ? "" : path);
    const auto limit = read_number(cat(folder, "/", files.limit)), usage = read_number(cat(folder, "/", files.usage));
    if (limit && usage && *limit < kNoLimit) {
      const std::string stat = read_source(folder + "/memory.stat");
      const std::uint64_t cache =
          find_number(stat, files.inactive).value_or(0) + find_number(stat, files.active).value_or(0);
      out.push_back({.bytes = remaining(*limit, remaining(*usage, cache)),
                     .name = cat("the memory cgroup ", path.empty() ? "/" : path, " (", files.limit, ")")});
    }
    if (path.empty() || path == "/") return;
    path.erase(path.rfind('/'));
  }
}

}  // namespace

MemorySources MemorySources::own() {
  MemorySources sources;
  auto soft = [](int resource) {
    rlimit limit{};
    const bool known = ::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0;
    return known && limit.rlim_cur != RLIM_INFINITY ? std::uint64_t{limit.rlim_cur} : UINT64_MAX;
  };
  sources.address_space = soft(RLIMIT_AS);
  sources.data = soft(RLIMIT_DATA);
  return sources;
}

std::vector<MemoryLimit> memory_limits(const MemorySources& sources) {
  std::vector<MemoryLimit> out;
  if (const auto kib = find_number(read_source(sources.proc + "/meminfo"), "MemAvailable:"))
    out.push_back({.bytes = *kib * 1024, .name = "MemAvailable"});
  for (const std::string& line : split(read_source(sources.proc + "/self/cgroup"), '\n')) {
    // "4:memory:/job_7" in version 1, "0::/job_7" in version 2.
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) {
      add_cgroups(sources.cgroups, path, kVersion2, out);
      add_cgroups(sources.cgroups + "/unified", path, kVersion2, out);
    } else if (const auto names = split(controllers, ','); std::ranges::find(names, "memory") != names.end()) {
      add_cgroups(sources.cgroups + "/memory", path, kVersion1, out);
    }
  }
  const std::string status = read_source(sources.proc + "/self/status");
  auto add_own = [&](std::uint64_t limit, const char* used_key, const char* name, bool counts_reservations) {
    if (limit == UINT64_MAX) return;
    out.push_back({.bytes = remaining(limit, find_number(status, used_key).value_or(0) * 1024),
                   .name = name,
                   .is_per_process = true,
                   .counts_reservations = counts_reservations});
  };
  add_own(sources.address_space, "VmSize:", "the limit of address space (ulimit -v)", true);
  add_own(sources.data, "VmData:", "the limit of the data segment (ulimit -d)", false);
  return out;
}

}  // namespace mtl
