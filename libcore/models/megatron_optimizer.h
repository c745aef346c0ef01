// Reads the optimizer state in Megatron-LM's torch checkpoints: Adam's moments for every parameter, and the training
// state.
//
//   fp32         optimizer = {state: {i: {exp_avg, exp_avg_sq}}, param_groups: [{params: [i, ...], step}, ...]}
//   fp16, bf16   optimizer = {optimizer: as above, fp32_from_fp16_params: [[main weights of a group], ...]}
//
// Parameters are numbered group by group and, within a group, in the rank's module order. There are two groups,
// matrices (with weight decay) and vectors (without), or a single group with all parameters. The reader checks the
// group sizes and all shapes.
//
// The distributed optimizer saves only the param_groups here, without `params`. Its tensors are in distrib_optim.pt,
// which megatron_distrib_optim.h reads.
#pragma once

#include <cstdint>
#include <optional>

#include "models/megatron_model.h"

namespace mtl {

/// Reads and merges all ranks' optimizer state, and the training state. The states include a tied copy of the token
/// embedding; the distributed optimizer has main weights even of an fp32 model. Returns an empty result if no rank has
/// any optimizer state. Does not throw if they are not usable, if the first rank's file has none although others
/// exist, or if all distrib_optim.pt are missing, because the weights still are usable. Throws Error(bad_data) for a
/// damaged distrib_optim.pt, and if only some of them are missing.
ShardedTraining read_megatron_training(const MegatronModel& model);

/// Reads the training state from a checkpoint's dict and its arguments. Iterations without an optimizer step count as
/// skipped, and so do samples that the learning-rate schedule did not count. `optimizer_steps` is 0 if the optimizer
/// state does not tell. Throws Error(bad_data) if the iteration or the arguments are missing or out of range.
TrainState megatron_train_state(PickleValue root, const std::optional<PickleValue>& args, std::int64_t optimizer_steps);

}  // namespace mtl
