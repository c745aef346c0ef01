// How much memory a run's plans need on a host and its GPUs, and the limits to compare it with.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/memory_limits.h"
#include "comm/launch.h"
#include "engine/rank_plans.h"

namespace mtl {

struct TrainOptions;

/// The ranks that share a host's memory: `count` consecutive ranks, starting with `first`.
struct HostRanks {
  int first = 0, count = 1;

  /// Assumes what launchers do by default: consecutive ranks on each host.
  static HostRanks of(const RankEnvironment& launched);
};

/// How much memory a run may use on each host and on each rank's GPU.
struct FitLimits {
  std::vector<MemoryLimit> host = {};
  std::optional<MemoryLimit> gpu = {};
  /// Returns `host` of a changed run, whose threads and ranks take more or less besides their plans; null: the same.
  std::function<std::vector<MemoryLimit>(const TrainOptions& options, int ranks_per_host)> host_of = {};
};

/// In bytes: the largest rank's host memory, the host memory of all ranks on the host, the largest rank's GPU memory,
/// and what the largest rank and all ranks on the host keep in files. On the cpu, all memory is host memory.
struct MemoryNeed {
  std::uint64_t rank_bytes = 0, host_bytes = 0, gpu_bytes = 0;
  std::uint64_t rank_file_bytes = 0, host_file_bytes = 0;

  /// Returns what one host's ranks need. `plans` is indexed by rank.
  static MemoryNeed of(const std::vector<const MemoryPlan*>& plans, const HostRanks& host);
  /// Returns the addresses that files take of a limit (file_memory.h).
  std::uint64_t reserved(const MemoryLimit& host_limit) const {
    return host_limit.counts_reservations ? rank_file_bytes : 0;
  }
  bool fits(const MemoryLimit& host_limit) const {
    return (host_limit.is_per_process ? rank_bytes + reserved(host_limit) : host_bytes) <= host_limit.bytes;
  }
  /// Takes the larger figure of both.
  void enlarge(const MemoryNeed& other);
  bool fits(const FitLimits& limits) const;
  std::string text() const;  // "3.0 GiB per rank", and what is in files
};

/// Returns every rank's plan, indexed by rank. The pointers point into `plans`.
std::vector<const MemoryPlan*> plans_by_rank(const std::vector<RankPlan>& plans);

}  // namespace mtl
