// The device of a rank: its own GPU, chosen by its local rank. Before MPI starts, each rank checks what it can see
// alone; once ranks can communicate, they check that each has a GPU and that no two share one.
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

/// The GPU of a rank among those that are visible to it.
struct GpuPlace {
  int ordinal = 0;
  std::string problem;  // why the rank gets none; else empty
};

/// Chooses the GPU of a rank. `visible`: number of GPUs that this process sees. If CUDA_VISIBLE_DEVICES shows one GPU
/// and the host has several ranks, assumes that the launcher gave each rank its own (srun --gpus-per-task);
/// agree_on_device() verifies it. With NCCL_HOSTID, which tests set, ranks may share GPUs. `most`: --gpus-per-node.
GpuPlace gpu_of_rank(const RankEnvironment& launched, int visible, std::optional<std::int64_t> most,
                     const GetVariable& get);

/// A rank's device.
struct RankDevice {
  DeviceChoice choice;
  int ordinal = 0;
  std::string name, bus;  // of the rank's GPU, for agree_on_device(); empty in a world of one
};

/// Chooses this rank's device as choose_device() does, without communication, and checks NCCL's variables. `name`:
/// --device; `most`: --gpus-per-node.
RankDevice choose_rank_device(const std::string& name, bool dry, const RankEnvironment& launched,
                              std::optional<std::int64_t> most);

/// Collective: chooses the device of all ranks, and what to report. They compute on GPUs only if each has its own, else
/// on the CPUs. Throws UsageError on all ranks if --device is cuda and two ranks share a GPU.
DeviceChoice agree_on_device(const std::string& name, const RankDevice& own, const std::vector<std::string>& hosts,
                             Communicator& world, const GetVariable& get);

/// The memory of a rank's GPU.
struct RankMemory {
  int rank = 0;
  CudaMemory memory;
};
/// Collective: returns the least free memory of any GPU, and the lowest rank that has it. `own` returns the memory of
/// this rank's GPU; if it throws on any rank, all ranks throw AgreedError.
RankMemory least_free_memory(const std::function<CudaMemory()>& own, Communicator& world);

}  // namespace mtl
