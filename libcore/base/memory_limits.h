// Finds out how much memory this process can still allocate under each of Linux's limits: the host's available memory,
// the process's memory cgroups (versions 1 and 2), and its resource limits.
//
// Page cache counts as free because it can be dropped: MemAvailable includes the kernel's estimate of that, and in a
// cgroup all file pages count. Swap does not count, because training in swap is far too slow. Limits that cannot be
// read are ignored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/cgroups.h"

namespace mtl {

struct MemoryLimit {
  std::uint64_t bytes = 0;           // bytes that can still be allocated
  std::string name;                  // the source: "MemAvailable", "the memory cgroup /job_7 (memory.max)"
  bool is_per_process = false;       // a resource limit; otherwise shared by the host or cgroup
  bool counts_reservations = false;  // limits address space, even space that is reserved but never used
  std::string group = {};            // of a memory cgroup: the same for all of its processes on the host
};

/// Where to read memory limits and usage, and this process's resource limits. Tests replace them.
struct MemorySources {
  KernelFiles files;
  std::uint64_t address_space = UINT64_MAX, data = UINT64_MAX;  // RLIMIT_AS and RLIMIT_DATA

  /// Returns the system's paths and the soft limits of this process.
  static MemorySources own();
};

/// Returns all limits it can find, in no particular order.
std::vector<MemoryLimit> memory_limits(const MemorySources& sources = MemorySources::own());

/// Memory that a program without ranks uses beside its buffers: of libraries and threads. Half of it is resident; with
/// limited address space, oneDNN failed with 17 MiB.
inline constexpr std::uint64_t kProgramBytes = 20 << 20;

/// True if this process can allocate `bytes` and kProgramBytes under all limits.
bool has_memory(std::uint64_t bytes, const MemorySources& sources = MemorySources::own());
/// Throws Error(usage) unless has_memory(bytes): "not enough memory: WHAT and the program need ..., but only ... is
/// available (LIMIT); REMEDY".
void require_memory(std::uint64_t bytes, const std::string& what, const std::string& remedy,
                    const MemorySources& sources = MemorySources::own());

}  // namespace mtl
