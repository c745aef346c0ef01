// Reads the optimizer state in Megatron-LM's torch checkpoints: Adam's moments for every parameter, and the training
// state.
//
//   fp32         optimizer = {state: {i: {exp_avg, exp_avg_sq}}, param_groups: [{params: [i, ...], step}, ...]}
//   fp16, bf16   optimizer = {optimizer: as above, fp32_from_fp16_params: [[main weights of a group], ...]}
//
// Parameters are numbered group by group and, within a group, in the rank's module order. There are two groups,
// matrices (with weight decay) and vectors (without), or a single group with all parameters. The reader checks the
// group sizes and all shapes.
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
  std::map<std::string, MegatronParameter> main;  // a 16-bit model's fp32 weights; empty for an fp32 model
  TrainState state;
};

/// Returns all ranks' optimizer state, merged. Returns empty if the files have no optimizer state. If it is not usable,
/// returns empty and sets `problem` to the reason.
std::optional<MegatronOptimizer> read_megatron_optimizer(const MegatronModel& model, std::string& problem);

}  // namespace mtl
