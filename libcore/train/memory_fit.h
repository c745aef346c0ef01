// Whether a run fits the memory and the disk that it has, before anything of it is allocated or trained. A run that
// does not fit would be killed by the kernel in its first step, or end with a full disk at its first save.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/memory_limits.h"
#include "comm/launch.h"
#include "train/start.h"

namespace mtl {

/// The ranks that share a host's memory: `count` in a row, from `first` on.
struct HostRanks {
  int first = 0, count = 1;

  /// Assumes the launchers' default: consecutive ranks on each host.
  static HostRanks of(const RankEnvironment& launched);
};

/// Throws Error(usage) when the plan of one of the host's ranks is above a limit of each process, or their plans
/// together are above one that they share. The message names the limit, the largest category, and up to three changes
/// of flags that fit, each planned like the run itself.
void check_memory(const TrainOptions& options, const RunStart& start, const HostRanks& host,
                  const std::vector<MemoryLimit>& limits);

/// The limits less what a rank takes besides its plan: stacks and arenas of `threads` further threads, buffers of
/// libraries, open files. Limits that are shared lose it once per rank of the host.
std::vector<MemoryLimit> less_overhead(std::vector<MemoryLimit> limits, int ranks, std::int64_t threads);

/// Disk space in --save for a run's checkpoints.
struct SpaceNeed {
  std::uint64_t checkpoint_bytes = 0;
  std::int64_t checkpoints = 0;  // on the disk at once, besides those that are there now
};
/// Counts the rest of a run that starts at `iteration`, with `present` checkpoints in --save.
SpaceNeed space_need(const TrainOptions& options, const GptConfig& config, std::int64_t iteration,
                     std::int64_t present);
/// Throws Error(io) when not even one checkpoint fits into `free_bytes`; otherwise a warning, or "" when all fit.
std::string check_space(const SpaceNeed& need, std::uint64_t free_bytes, const std::string& folder);

/// Both checks for this host, by its first rank: on rank 0's host before Ranks::connect, on the others once they know
/// the start, before any rank allocates. Other ranks check nothing: one that looked later would count what its
/// neighbours have allocated. A warning about the disk comes from rank 0 alone.
void check_fit(const TrainOptions& options, const RunStart& start, const RankEnvironment& launched, Console& console);

}  // namespace mtl
