// Reads distrib_optim.pt, where Megatron-LM's distributed optimizer (--use-distributed-optimizer) saves the main
// weights and Adam's moments of one tensor and pipeline parallel rank, beside the rank's model_optim_rng.pt:
//
//   {buckets_coalesced: True, 0: {(dtype of the weights, of the gradients): {param, exp_avg, exp_avg_sq,
//                                                                           numel_unpadded}}, 1: ...}
//
// The integers number the rank's model chunks. Each tensor is fp32, with one axis, and contains all parameters of its
// chunk as megatron_buffers.h says. Since megatron-core 0.8 parameters are aligned; the number of elements tells. The
// file has this form since megatron-core 0.7; older ones, with a tensor for each bucket, are refused by name.
#pragma once

#include "models/megatron_optimizer.h"

namespace mtl {

inline constexpr const char* kDistributedFile = "distrib_optim.pt";

/// True if a rank's file lists its optimizer's groups of parameters, but not their states.
bool has_distributed_state(const TorchFile& file);

/// Returns the path of the rank's distrib_optim.pt, whether it exists or not.
std::string distributed_file_of(const TorchFile& file);

/// Reads the states of all ranks. Throws Error(bad_data) if a file is missing, damaged or in an older form, or if its
/// tensors do not fit the model. Reads no elements: the caller compares the main weights with the model's.
ShardedStates read_distributed_optimizer(const MegatronModel& model);

}  // namespace mtl
