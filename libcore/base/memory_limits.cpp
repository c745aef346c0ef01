#include "base/memory_limits.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <optional>

#include "base/error.h"
#include "base/str.h"

namespace mtl {

namespace {

/// Finds a line that begins with `key`, like "MemAvailable:   123 kB" or "inactive_file 4096", and returns its number,
/// or nullopt if there is none, or something else, such as "max".
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

/// Returns what names a cgroup's folder in every container and namespace of the host, where its path may differ.
std::string cgroup_identity(const std::string& folder) {
  struct stat status {};
  return ::stat(folder.c_str(), &status) == 0 ? cat(status.st_dev, ":", status.st_ino) : "";
}

/// Appends the limit of a cgroup, if it has one, to `out`.
void add_cgroup(const Cgroup& group, std::vector<MemoryLimit>& out) {
  const CgroupFiles& files = group.version == 1 ? kVersion1 : kVersion2;
  const auto limit = find_number(read_kernel_file(cat(group.folder, "/", files.limit)), ""),
             usage = find_number(read_kernel_file(cat(group.folder, "/", files.usage)), "");
  if (!limit || !usage || *limit >= kNoLimit) return;
  const std::string stat = read_kernel_file(group.folder + "/memory.stat");
  const std::uint64_t cache =
      find_number(stat, files.inactive).value_or(0) + find_number(stat, files.active).value_or(0);
  out.push_back({.bytes = remaining(*limit, remaining(*usage, cache)),
                 .name = cat("the memory cgroup ", group.name, " (", files.limit, ")"),
                 .group = cgroup_identity(group.folder)});
}

}  // namespace

MemorySources MemorySources::own() {
  auto soft = [](int resource) {
    rlimit limit{};
    const bool known = ::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) == 0;
    return known && limit.rlim_cur != RLIM_INFINITY ? std::uint64_t{limit.rlim_cur} : UINT64_MAX;
  };
  return {.files = {}, .address_space = soft(RLIMIT_AS), .data = soft(RLIMIT_DATA)};
}

std::vector<MemoryLimit> memory_limits(const MemorySources& sources) {
  std::vector<MemoryLimit> out;
  if (const auto kib = find_number(read_kernel_file(sources.files.proc + "/meminfo"), "MemAvailable:"))
    out.push_back({.bytes = *kib * 1024, .name = "MemAvailable"});
  for (const Cgroup& group : own_cgroups("memory", sources.files)) add_cgroup(group, out);
  const std::string status = read_kernel_file(sources.files.proc + "/self/status");
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

namespace {

/// Returns the smallest limit. Without any, one that everything fits.
MemoryLimit smallest_limit(const MemorySources& sources) {
  MemoryLimit smallest{.bytes = UINT64_MAX, .name = ""};
  for (const MemoryLimit& limit : memory_limits(sources))
    if (limit.bytes < smallest.bytes) smallest = limit;
  return smallest;
}

}  // namespace

bool has_memory(std::uint64_t bytes, const MemorySources& sources) {
  return bytes + kProgramBytes <= smallest_limit(sources).bytes;
}

void require_memory(std::uint64_t bytes, const std::string& what, const std::string& remedy,
                    const MemorySources& sources) {
  const MemoryLimit limit = smallest_limit(sources);
  if (bytes + kProgramBytes <= limit.bytes) return;
  fail(Exit::usage, "not enough memory: ", what, " and the program need ", human_bytes(double(bytes + kProgramBytes)),
       ", but only ", human_bytes(double(limit.bytes)), " is available (", limit.name, "); ", remedy);
}

}  // namespace mtl
