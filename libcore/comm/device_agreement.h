// Chooses each rank's own GPU by local rank. Before MPI starts, each rank checks what it can check alone. Once ranks
// can communicate, they check that all of them have a GPU and that no two share one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/launch.h"
#include "device/cuda_device.h"
#include "device/device_choice.h"

namespace mtl {

/// A rank's GPU among those visible to it.
struct GpuPlace {
  int ordinal = 0;
  std::string problem;  // why the rank gets no GPU; otherwise empty
};

/// Chooses a rank's GPU. `visible` is the number of GPUs visible to this process; `most` is --gpus-per-node. If
/// CUDA_VISIBLE_DEVICES shows one GPU and the host has several ranks, assumes that the launcher gave each rank its own
/// GPU (srun --gpus-per-task); agree_on_device() verifies this. With NCCL_HOSTID, which tests set, ranks may share
/// GPUs.
GpuPlace gpu_of_rank(const RankEnvironment& launched, int visible, std::optional<std::int64_t> most,
                     const GetVariable& get);

/// A rank's device.
struct RankDevice {
  DeviceChoice choice;
  int ordinal = 0;
  std::string name, bus;  // of this rank's GPU, for agree_on_device(); empty in a world of one
};

/// Chooses this rank's device like choose_device(), without communication, and checks NCCL's variables. `name` is
/// --device; `most` is --gpus-per-node.
RankDevice choose_rank_device(const std::string& name, bool dry, const RankEnvironment& launched,
                              std::optional<std::int64_t> most);

/// Collective: chooses all ranks' device and the message to report. Ranks compute on GPUs only if each has its own,
/// otherwise on CPUs. Throws UsageError on all ranks if --device is cuda and two ranks share a GPU.
DeviceChoice agree_on_device(const std::string& name, const RankDevice& own, const std::vector<std::string>& hosts,
                             Communicator& world, const GetVariable& get);

/// A rank's GPU memory.
struct RankMemory {
  int rank = 0;
  CudaMemory memory;
};
/// Collective: returns the least free GPU memory over all ranks, and the lowest rank that has it. `own` returns this
/// rank's GPU memory. If `own` throws on any rank, all ranks throw AgreedError.
RankMemory least_free_memory(const std::function<CudaMemory()>& own, Communicator& world);

}  // namespace mtl
