// Checks that a run fits in memory and on disk, before it allocates or trains. A run that does not fit would be killed
// by the operating system in its first step, fail to allocate on its GPU, or end with a full disk at its first save.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/cuda_device.h"
#include "train/memory_need.h"
#include "train/start.h"

namespace mtl {

/// Throws Error(usage) if the plan of a rank of `host` exceeds a per-process limit or the limit of the rank's GPU, or
/// if the plans of all ranks of `host` together exceed a shared limit. The message names the limit, the largest
/// category of memory, and up to three changes of flags that fit (fitting_settings.h).
void check_memory(const TrainOptions& options, const RunStart& start, const HostRanks& host, const FitLimits& limits);

/// Subtracts from each limit the memory that ranks use in addition to their plans, such as buffers of libraries.
/// Subtracts this overhead once for each of `ranks` ranks from a shared limit, and once from a per-process limit. From
/// a per-process limit, also subtracts the stacks of `threads` additional threads and, if the limit counts reserved
/// addresses, the malloc arenas of those threads.
std::vector<MemoryLimit> subtract_overhead(std::vector<MemoryLimit> limits, int ranks, std::int64_t threads);

/// Returns the free memory of a GPU, minus the memory that the CUDA libraries will use. `gpu` is the name of the GPU in
/// messages.
MemoryLimit gpu_limit(const CudaMemory& memory, const std::string& gpu);
/// Returns the memory of a GPU of `gib` GiB, minus the memory that the CUDA context and libraries will use.
MemoryLimit gpu_limit(double gib);

/// Checks the memory and the disk of a host on the first rank of that host. A no-op on other ranks, which would count
/// memory that other ranks of the host have already allocated. Call before any rank allocates: on the host of rank 0
/// before Ranks::connect(), and on other hosts as soon as the start is known. In a run of a single rank, also checks
/// the GPU. In a run of several ranks, the ranks agree on the memory of their GPUs later and then call check_memory().
/// Only rank 0 warns about the disk.
void check_fit(const TrainOptions& options, const RunStart& start, const RankEnvironment& launched, Console& console);

}  // namespace mtl
