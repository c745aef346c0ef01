// The device of a rank: one GPU each, by the rank's place on its host. What a rank can see alone is checked before MPI
// starts; that all ranks have a GPU, and none shares one, when they can talk.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/device_flags.h"
#include "comm/communicator.h"
#include "comm/launch.h"
#include "device/cuda_device.h"

namespace mtl {

/// The GPU of a rank among those that CUDA shows to it.
struct GpuPlace {
  int ordinal = 0;
  std::string problem;  // why there is none; else empty
};

/// `visible`: GPUs that this process sees. Where it sees one and its host has several ranks, the launcher gave each
/// rank its own (srun --gpus-per-task), which agree_on_device() verifies. With NCCL_HOSTID, which tests set, ranks may
/// share GPUs. `most`: --gpus-per-node.
GpuPlace gpu_of_rank(const RankEnvironment& launched, int visible, std::optional<std::int64_t> most,
                     const GetVariable& get);

/// A rank's device.
struct RankDevice {
  DeviceChoice choice;
  int ordinal = 0;
  std::string name, bus;  // of its GPU
};

/// Without any other rank: choose_device() for this rank's GPU, with the environment of NCCL checked. `name` is
/// --device's.
RankDevice choose_rank_device(const std::string& name, bool dry, const RankEnvironment& launched,
                              std::optional<std::int64_t> most);

/// Collective: the device of all ranks, and what to report. Several ranks compute on GPUs only if each has one; with
/// --device auto they otherwise compute on the CPUs. Throws UsageError on all ranks if --device is
/// cuda and two share a GPU.
DeviceChoice agree_on_device(const std::string& name, const RankDevice& own, const std::vector<std::string>& hosts,
                             Communicator& world, const GetVariable& get);

/// The memory of a rank's GPU.
struct RankMemory {
  int rank = 0;
  CudaMemory memory;
};
/// Collective: the GPU with the least free memory; of several the one of the first rank. `own` gives the memory of this
/// rank's GPU; what it throws is thrown on all ranks, as AgreedError.
RankMemory least_free_memory(const std::function<CudaMemory()>& own, Communicator& world);

}  // namespace mtl
