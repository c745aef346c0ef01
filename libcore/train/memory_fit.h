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

/// Throws Error(usage) if the plan of a rank of `host` exceeds a per-process limit or its GPU's, or if the plans of all
/// these ranks together exceed a shared limit. The message names the limit, the largest category of that memory, and up
/// to three changes of flags that fit (fitting_settings.h).
void check_memory(const TrainOptions& options, const RunStart& start, const HostRanks& host, const FitLimits& limits);

/// Returns the limits minus what ranks take in addition to their plans, such as buffers of libraries: per rank of the
/// host in a shared limit, once in a per-process limit. The latter is also reduced by the stacks of `threads` further
/// threads, and by their arenas if it counts reserved addresses.
std::vector<MemoryLimit> subtract_overhead(std::vector<MemoryLimit> limits, int ranks, std::int64_t threads);

/// Returns the free memory of a GPU, less what CUDA's libraries will take. `gpu` names it in messages.
MemoryLimit gpu_limit(const CudaMemory& memory, const std::string& gpu);
/// Returns the memory of a GPU of `gib` GiB, less what CUDA's context and libraries take.
MemoryLimit gpu_limit(double gib);

/// Checks a host's memory and disk on the first rank of the host. Does nothing on other ranks, which would count what
/// their neighbors have allocated. Call before any rank allocates: on rank 0's host before Ranks::connect, on other
/// hosts once they know the start. A single rank also checks its GPU; several ranks instead agree on their GPUs' memory
/// later, and then call check_memory(). Only rank 0 warns about the disk.
void check_fit(const TrainOptions& options, const RunStart& start, const RankEnvironment& launched, Console& console);

}  // namespace mtl
