// Checks that a run fits its memory and its disk, before it allocates or trains. A run that does not fit would be
// killed by the kernel in its first step, fail to allocate on its GPU, or end with a full disk at its first save.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/cuda_device.h"
#include "train/memory_need.h"
#include "train/start.h"

namespace mtl {

/// Throws Error(usage) if the plan of one of the host's ranks exceeds a limit per process or its GPU's, or if the plans
/// of all of them exceed a limit that they share. The message names the limit, the largest category of that memory, and
/// up to three changes of flags that fit (fitting_settings.h).
void check_memory(const TrainOptions& options, const RunStart& start, const HostRanks& host, const FitLimits& limits);

/// Returns the limits less what a rank takes in addition to its plan, such as buffers of libraries. A limit that ranks
/// share loses it once per rank of the host. A limit per process also loses the stacks of `threads` further threads,
/// and their arenas if it counts reserved addresses.
std::vector<MemoryLimit> subtract_overhead(std::vector<MemoryLimit> limits, int ranks, std::int64_t threads);

/// The free memory of a GPU, less what CUDA's libraries will take. `gpu` is for messages: "the GPU".
MemoryLimit gpu_limit(const CudaMemory& memory, const std::string& gpu);
/// The memory of a GPU of `gib` GiB, less what CUDA's context and libraries take.
MemoryLimit gpu_limit(double gib);

/// Checks a host's memory and disk on the first rank of the host; other ranks would count what their neighbors have
/// allocated, and do nothing. Call before any rank allocates: on rank 0's host before Ranks::connect, on other hosts
/// once they know the start. A single rank also checks its GPU; several first agree on the GPUs' memory, and then call
/// check_memory(). Only rank 0 warns about the disk.
void check_fit(const TrainOptions& options, const RunStart& start, const RankEnvironment& launched, Console& console);

}  // namespace mtl
