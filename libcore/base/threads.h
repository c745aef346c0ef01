// How many threads a tool uses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/cgroups.h"

namespace mtl {

/// The CPU time that control groups grant this process, in cores, such as 2.5. A container has such a quota, although
/// its processes may run on every core of the host.
struct CpuQuota {
  double cores = 0;
  std::string name;  // "the CPU quota of cgroup /job_7 (cpu.max)"
};

/// Returns the smallest quota of this process's cgroups and their ancestors. Empty if there is none.
std::optional<CpuQuota> cpu_quota(const KernelFiles& files = {});

/// Returns `threads` if positive. Otherwise returns the number of cores this process may run on or, if that is less,
/// its CPU quota, rounded up; but no more than an equal share of the host's cores and of the quota if `local_ranks`
/// ranks run there.
int resolve_threads(std::int64_t threads, int local_ranks = 1, const KernelFiles& files = {});

/// Returns "2 threads, because the CPU quota of cgroup /job_7 (cpu.max) is 1.5 cores" if resolve_threads(0, ...) would
/// return more without the quota; otherwise "".
std::string describe_quota(int local_ranks, const KernelFiles& files = {});

}  // namespace mtl
