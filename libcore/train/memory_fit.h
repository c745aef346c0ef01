// Checks that a run fits in memory and on disk before it allocates or trains. Otherwise the operating system might kill
// it in its first step, allocation on the GPU might fail, or its first save might fill the disk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/cuda_device.h"
#include "train/memory_need.h"
#include "train/start.h"

namespace mtl {

/// Throws Error(usage) if a rank's plan on `host` exceeds a per-process limit or its GPU's limit, or if the plans of
/// all ranks on `host` together exceed a shared limit. The message gives the limit, the largest memory category, and up
/// to three flag changes that would fit (fitting_settings.h).
void check_memory(const TrainOptions& options, const RunStart& start, const HostRanks& host, const FitLimits& limits);

/// Subtracts from each limit the memory that ranks use in addition to their plans, such as library buffers: once for
/// each of `ranks` ranks from shared limits, and once from per-process limits. From per-process limits, also subtracts
/// the stacks of `threads` additional threads and, if the limit counts reserved addresses, their malloc arenas.
std::vector<MemoryLimit> subtract_overhead(std::vector<MemoryLimit> limits, int ranks, std::int64_t threads);

/// Returns a GPU's free memory minus what CUDA libraries will use. `gpu` is the GPU's name in messages.
MemoryLimit gpu_limit(const CudaMemory& memory, const std::string& gpu);
/// Returns the memory of a GPU with `gib` GiB minus what the CUDA context and libraries will use.
MemoryLimit gpu_limit(double gib);

/// Checks a host's memory and disk on the host's first rank. Does nothing on other ranks, which would count memory that
/// ranks on the same host have already allocated. Must be called before any rank allocates: on rank 0's host before
/// Ranks::connect(), and on other hosts as soon as the start is known. In a single-rank run, also checks the GPU. With
/// multiple ranks, the ranks later agree on their GPUs' memory and then call check_memory(). Only rank 0 warns about
/// the disk.
void check_fit(const TrainOptions& options, const RunStart& start, const RankEnvironment& launched, Console& console);

}  // namespace mtl
