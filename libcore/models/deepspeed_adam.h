// Reads optimizer states of DeepSpeed without partitions, which are in the model's files: torch's own and, for 16-bit
// models, also the fp32 weights:
//
//   optimizer = {state: {id: {exp_avg, exp_avg_sq, step}}, param_groups: [{params: [id, ...]}]}
//   optimizer = {optimizer_state_dict: as above, fp32_groups: [[a tensor of each parameter]]}   FP16_UnfusedOptimizer
//   optimizer = {optimizer_state_dict: as above, fp32_groups_flat: [a tensor of each group]}    FP16_Optimizer
//
// FP16_Optimizer flattens each group, so that its moments are flat, too. Nothing there names the parameters, so mtl
// reads it only if every group contains parameters of one kind, matrices or vectors, or if there is a single group with
// all of them. A pipeline stage's groups contain consecutive parameters in the order of the modules, and those of a
// last stage with a tied output layer first its copy of the embedding.
#pragma once

#include "models/deepspeed_state.h"

namespace mtl {

/// Adds a rank's state from the entry `optimizer` of its file. In a pipeline, model.order[first_of_stage] is the
/// stage's first parameter; then sets it to the next stage's.
void read_deepspeed_adam(const DeepSpeedRank& rank, PickleValue optimizer, std::size_t& first_of_stage);

}  // namespace mtl
