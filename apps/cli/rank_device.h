// The device of a rank: a separate GPU for each rank, chosen by its local rank. Before MPI starts, each rank checks
// what it can check without communication. Once ranks can communicate, they check that every rank has a GPU and that no
// two ranks share a GPU.
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
  std::string problem;  // why the rank gets no GPU; otherwise empty
};

/// Chooses the GPU of a rank. `visible` is the number of GPUs visible to this process; `most` is --gpus-per-node. If
/// CUDA_VISIBLE_DEVICES shows one GPU and the host has several ranks, assumes that the launcher gave each rank a
/// separate GPU (srun --gpus-per-task); agree_on_device() verifies this assumption. With NCCL_HOSTID, which tests set,
/// ranks may share GPUs.
GpuPlace gpu_of_rank(const RankEnvironment& launched, int visible, std::optional<std::int64_t> most,
                     const GetVariable& get);

/// A rank's device.
struct RankDevice {
  DeviceChoice choice;
  int ordinal = 0;
  std::string name, bus;  // of the rank's GPU, for agree_on_device(); empty in a world of one
};

/// Chooses the device of this rank like choose_device(), without communication, and checks NCCL's variables. `name` is
/// the value of --device; `most` is --gpus-per-node.
RankDevice choose_rank_device(const std::string& name, bool dry, const RankEnvironment& launched,
                              std::optional<std::int64_t> most);

/// Collective: chooses the device of all ranks and the message to report. Ranks compute on GPUs only if each rank has a
/// separate GPU, otherwise on CPUs. Throws UsageError on all ranks if --device is cuda and two ranks share a GPU.
DeviceChoice agree_on_device(const std::string& name, const RankDevice& own, const std::vector<std::string>& hosts,
                             Communicator& world, const GetVariable& get);

/// The memory of a rank's GPU.
struct RankMemory {
  int rank = 0;
  CudaMemory memory;
};
/// Collective: returns the minimum of the free memory of all ranks' GPUs, and the lowest rank with this minimum. `own`
/// returns the memory of this rank's GPU. If `own` throws on at least one rank, all ranks throw AgreedError.
RankMemory least_free_memory(const std::function<CudaMemory()>& own, Communicator& world);

}  // namespace mtl
