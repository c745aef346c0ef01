// The memory that this process can still allocate, by every limit on Linux: the available memory, its memory cgroups
// (versions 1 and 2), and its resource limits.
//
// The page cache can be dropped, so it counts as free: in MemAvailable by the kernel's own estimate, in a cgroup as its
// file pages. Swap does not count: training in swap makes no progress. A figure that cannot be read sets no limit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mtl {

struct MemoryLimit {
  std::uint64_t bytes = 0;  // that can still be allocated
  std::string name;         // what sets the limit, such as "MemAvailable" or "the memory cgroup /job_7 (memory.max)"
  bool is_per_process = false;       // a resource limit; if false, shared by all processes of the host or cgroup
  bool counts_reservations = false;  // limits address space, used or not
};

/// The sources of the kernel's memory figures; tests replace them.
struct MemoryFigures {
  std::string proc = "/proc";
  std::string cgroups = "/sys/fs/cgroup";
  std::uint64_t address_space = UINT64_MAX, data = UINT64_MAX;  // RLIMIT_AS and RLIMIT_DATA

  /// The sources of this process.
  static MemoryFigures own();
};

/// Returns all limits that can be found, in no particular order.
std::vector<MemoryLimit> memory_limits(const MemoryFigures& figures = MemoryFigures::own());

}  // namespace mtl
