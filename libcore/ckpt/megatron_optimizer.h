// The optimizer's state in Megatron-LM's torch checkpoints: Adam's moments by parameter, and the state of training.
//
//   fp32         optimizer = {state: {i: {exp_avg, exp_avg_sq}}, param_groups: [{params: [i, ...], step}, ...]}
//   fp16, bf16   optimizer = {optimizer: as above, fp32_from_fp16_params: [[main weights of a group], ...]}
//
// Parameters are numbered group by group, each group in the order of the rank's modules: matrices in the group with
// weight decay, vectors in the other one; or all in one group. The reader checks the groups' sizes and all shapes.
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

/// Returns the merged state of all ranks. Empty when the files have no optimizer, or when its state is not usable; in
/// the latter case sets `problem` to the reason.
std::optional<MegatronOptimizer> read_megatron_optimizer(const MegatronModel& model, std::string& problem);

}  // namespace mtl
