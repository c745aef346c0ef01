// Checks that a run fits in memory and on disk before it allocates or trains. Otherwise the operating system might kill
// it in its first step, allocation on the GPU might fail, or its first save might fill the disk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/cuda_device.h"
#include "run/memory_need.h"
#include "train/start.h"

namespace mtl {

/// Throws Error(usage) if a rank's plan on `host` exceeds a per-process limit or its GPU's limit, or if the plans of
/// all ranks on `host` together exceed a shared limit. The message gives the limit, the largest memory category, and up
/// to three flag changes that would fit (fitting_settings.h).
void check_memory(const TrainOptions& options, const RunStart& start, const HostRanks& host, const FitLimits& limits);

/// Subtracts from each limit the memory that ranks use in addition to their plans, such as library buffers: once for
/// each of `ranks` ranks from shared limits, and once from per-process limits. From per-process limits, also subtracts
/// the stacks of `threads` additional threads and, if the limit counts reserved addresses, their malloc arenas. The
/// names then say so.
std::vector<MemoryLimit> subtract_overhead(std::vector<MemoryLimit> limits, int ranks, std::int64_t threads);

/// Returns a GPU's free memory minus what CUDA libraries will use. `gpu` is the GPU's name in messages.
MemoryLimit gpu_limit(const CudaMemory& memory, const std::string& gpu);
/// Returns the memory of a GPU with `gib` GiB minus what the CUDA context and libraries will use.
MemoryLimit gpu_limit(double gib);

/// Returns the memory cgroups of `limits`, as text for other ranks.
std::string memory_groups(const std::vector<MemoryLimit>& limits);

/// Checks this rank's limits: each against the plans of the ranks that share it, on the first of them. Limits of a
/// process apply to its rank alone. A cgroup's apply to the ranks of this host that are in it, by `groups`, which is
/// every rank's memory_groups(), or empty before the ranks know each other: then to this rank alone, which it needs in
/// any case. All ranks of the host share its free memory. `limits` must have been read before any rank of the host
/// allocates, and before MPI starts, because libraries are counted apart. In a single-rank run, also checks the GPU.
/// With multiple ranks, the ranks later agree on their GPUs' memory and then call check_memory().
void check_memory_fit(const TrainOptions& options, const RunStart& start, const RankEnvironment& launched,
                      const std::vector<MemoryLimit>& limits, const std::vector<std::string>& groups);

/// Checks this rank's shard and, on a host's first rank, the disks. Only rank 0 warns.
void check_disks(const TrainOptions& options, const RunStart& start, const RankEnvironment& launched, Console& console);

}  // namespace mtl
