// The memory that the plans of a run need on a host and on the GPUs of that host, and the limits with which this need
// is compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/memory_limits.h"
#include "comm/launch.h"
#include "engine/rank_plans.h"

namespace mtl {

/// The ranks that share a host's memory: `count` consecutive ranks, beginning with `first`.
struct HostRanks {
  int first = 0, count = 1;

  /// Assumes the default of launchers: consecutive ranks on each host.
  static HostRanks of(const RankEnvironment& launched);
};

/// The memory that a run may take on each host and on each rank's GPU.
struct FitLimits {
  std::vector<MemoryLimit> host;
  std::optional<MemoryLimit> gpu;
};

/// Host memory of the largest rank, host memory of all ranks of the host, and GPU memory of the largest rank, all in
/// bytes. On the cpu, all memory is host memory.
struct MemoryNeed {
  std::uint64_t rank_bytes = 0, host_bytes = 0, gpu_bytes = 0;

  /// Returns the need of one host's ranks; `plans` is indexed by rank.
  static MemoryNeed of(const std::vector<const MemoryPlan*>& plans, const HostRanks& host);
  bool fits(const MemoryLimit& host_limit) const {
    return (host_limit.is_per_process ? rank_bytes : host_bytes) <= host_limit.bytes;
  }
  bool fits(const FitLimits& limits) const;
  std::string text() const;  // "3.0 GiB per rank"
};

/// Returns the plan of every rank, indexed by rank; the pointers point into `plans`.
std::vector<const MemoryPlan*> plans_by_rank(const std::vector<RankPlan>& plans);

}  // namespace mtl
