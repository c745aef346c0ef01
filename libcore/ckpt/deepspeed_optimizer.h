// Reads the optimizer state in DeepSpeed's checkpoints: fp32 weights and Adam's moments of every parameter.
//
// ZeRO 1 and 2 flatten the parameters of a group, in the order of the model file's entry param_shapes, and cut the
// result into one partition for each data-parallel rank. A rank's file has
//
//   optimizer_state_dict = {single_partition_of_fp32_groups: [a partition of each group], group_paddings, zero_stage,
//                           base_optimizer_state: {state: {id: {exp_avg, exp_avg_sq, step}}, param_groups},
//                           partition_count, param_alignment_paddings}
//
// Without ZeRO, BF16_Optimizer writes the same files, but no param_shapes. The parameters and their order are then in
// param_slice_mappings: [{NAME: fragment_address(numel, start)} of each group], in the rank's partition.
//
// With elastic_checkpoint, base_optimizer_state is a list of states, one for each group. The partitions of the moments
// may be longer than those of the weights by padding. bf16's optimizer (BF16_Optimizer) has no zero_stage, and its
// partitions of the weights contain the padding too.
//
// Otherwise, the model's files have torch's own optimizer state, and for 16-bit models also the fp32 weights:
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

#include <optional>
#include <string>

#include "ckpt/checkpoint.h"
#include "ckpt/deepspeed_model.h"

namespace mtl {

struct DeepSpeedOptimizer {
  ShardedParameters main, exp_avg, exp_avg_sq;  // fp32; main is empty if the weights are fp32
};

struct DeepSpeedTraining {
  std::optional<DeepSpeedOptimizer> optimizer;  // empty if the files have no optimizer state, or if it is not usable
  std::optional<TrainState> state;
  std::string problem;  // why a run cannot resume with the optimizer state; "" if it can, or if there is none
};

/// Reads all ranks' optimizer state, and the training state. Keeps the files that it opens in model.files. Does not
/// throw if they are not usable, because the weights still are.
DeepSpeedTraining read_deepspeed_training(DeepSpeedModel& model, const DeepSpeedFiles& files);

}  // namespace mtl
