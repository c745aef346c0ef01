// Whether a run fits the memory and the disk that it has, before anything of it is allocated or trained. A run that
// does not fit would be killed by the kernel in its first step, fail to allocate on its GPU, or end with a full disk at
// its first save.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/cuda_device.h"
#include "train/memory_need.h"
#include "train/start.h"

namespace mtl {

/// Throws Error(usage) when the plan of one of the host's ranks is above a limit of each process or of its GPU, or
/// their plans together are above one that they share. The message names the limit, the largest category of that
/// memory, and up to three changes of flags that fit, each planned like the run itself.
void check_memory(const TrainOptions& options, const RunStart& start, const HostRanks& host, const FitLimits& limits);

/// The limits less what a rank takes besides its plan: stacks and arenas of `threads` further threads, buffers of
/// libraries, open files. Limits that are shared lose it once per rank of the host.
std::vector<MemoryLimit> less_overhead(std::vector<MemoryLimit> limits, int ranks, std::int64_t threads);

/// The free memory of a GPU, less what CUDA's libraries will take. `whose`: "the GPU".
MemoryLimit gpu_limit(const CudaMemory& memory, const std::string& whose);
/// A GPU of so many GiB, less what CUDA's context and libraries take.
MemoryLimit gpu_limit(double gib);

/// The first rank of a host checks the host's memory and disk: on rank 0's host before Ranks::connect, on the others
/// once they know the start, before any rank allocates. Other ranks check nothing: a rank that looked later would count
/// what its neighbours have allocated. A single rank checks its GPU, too; several agree on the GPUs' memory first, for
/// check_memory(). Only rank 0 warns about the disk.
void check_fit(const TrainOptions& options, const RunStart& start, const RankEnvironment& launched, Console& console);

}  // namespace mtl
