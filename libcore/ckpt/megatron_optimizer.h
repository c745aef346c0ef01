// Reads the optimizer state in Megatron-LM's torch checkpoints: Adam's moments of every parameter, and the training
// state.
//
//   fp32         optimizer = {state: {i: {exp_avg, exp_avg_sq}}, param_groups: [{params: [i, ...], step}, ...]}
//   fp16, bf16   optimizer = {optimizer: as above, fp32_from_fp16_params: [[main weights of a group], ...]}
//
// Parameters are numbered group by group; within a group, in the order of the rank's modules. There are two groups,
// matrices (with weight decay) and vectors (without), or a single group of all parameters. The reader checks the sizes
// of the groups and all shapes.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "ckpt/checkpoint.h"
#include "ckpt/megatron_model.h"

namespace mtl {

struct MegatronOptimizer {
  // By canonical name, including a tied copy of the token embedding.
  std::map<std::string, MegatronParameter> exp_avg, exp_avg_sq;
  std::map<std::string, MegatronParameter> main;  // fp32 weights of a 16-bit model; empty for an fp32 model
  TrainState state;
};

/// Returns the merged optimizer state of all ranks. Returns empty if the files have no optimizer state. If the
/// optimizer state is not usable, returns empty and sets `problem` to the reason.
std::optional<MegatronOptimizer> read_megatron_optimizer(const MegatronModel& model, std::string& problem);

}  // namespace mtl
