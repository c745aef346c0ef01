// The optimizer's state in Megatron-LM's torch checkpoints: Adam's moments by parameter, and where training stood.
//
//   fp32         optimizer = {state: {i: {exp_avg, exp_avg_sq}}, param_groups: [{params: [i, ...], step}, ...]}
//   fp16, bf16   optimizer = {optimizer: as above, fp32_from_fp16_params: [[main weights of a group], ...]}
//
// Parameters are numbered group by group, each group in the order of the rank's modules: matrices in the group that
// decays, vectors in the other one. Sizes of groups and shapes are checked against that.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "ckpt/checkpoint.h"
#include "ckpt/megatron_model.h"

namespace mtl {

struct MegatronOptimizer {
  // By canonical name; a tied copy of the token embedding is among them.
  std::map<std::string, MegatronParameter> exp_avg, exp_avg_sq;
  std::map<std::string, MegatronParameter> main;  // fp32 weights of a model in 16 bits; empty for fp32
  TrainState state;
};

/// Empty when the files have none, or when it cannot be read: then `problem` says why.
std::optional<MegatronOptimizer> read_megatron_optimizer(const MegatronModel& model, std::string& problem);

}  // namespace mtl
