// Finds out how much memory this process can still allocate under each limit on Linux: the host's available memory, the
// memory cgroups of the process (versions 1 and 2), and the resource limits of the process.
//
// The page cache can be dropped and therefore counts as free: MemAvailable includes the kernel's estimate of the cache
// that can be dropped, and in a cgroup all file pages count as free. Swap does not count, because training in swap is
// far too slow. A limit that cannot be read is ignored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mtl {

struct MemoryLimit {
  std::uint64_t bytes = 0;           // bytes that can still be allocated
  std::string name;                  // the source: "MemAvailable", "the memory cgroup /job_7 (memory.max)"
  bool is_per_process = false;       // true: a resource limit; false: all processes of the host or cgroup share it
  bool counts_reservations = false;  // limits address space, including reserved space that is never used
};

/// The places from which memory limits and usage are read. Tests replace these places.
struct MemoryFigures {
  std::string proc = "/proc";
  std::string cgroups = "/sys/fs/cgroup";
  std::uint64_t address_space = UINT64_MAX, data = UINT64_MAX;  // RLIMIT_AS and RLIMIT_DATA

  /// Returns the places that apply to this process.
  static MemoryFigures own();
};

/// Returns all limits that can be found, in no particular order.
std::vector<MemoryLimit> memory_limits(const MemoryFigures& figures = MemoryFigures::own());

}  // namespace mtl
