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

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/megatron_model.h"
#include "models/tensor_reader.h"

namespace mtl {

struct MegatronOptimizer {
  // By canonical name, including a tied copy of the token embedding.
  std::map<std::string, MegatronParameter> exp_avg, exp_avg_sq;
  // Fp32 weights. Empty for an fp32 model, except with the distributed optimizer.
  std::map<std::string, MegatronParameter> main;
  std::vector<std::unique_ptr<TorchFile>> files;  // every rank's distrib_optim.pt; otherwise empty
  std::deque<TorchTensor> views;                  // the shards' tensors, if they are parts of tensors in `files`
};

struct MegatronTraining {
  std::optional<MegatronOptimizer> optimizer;  // empty if the files have no optimizer state, or if it is not usable
  std::optional<TrainState> state;             // may exist without a usable optimizer state
  std::string problem;                         // why a run cannot resume with its optimizer state; "" if it can
};

/// Reads and merges all ranks' optimizer state, and the training state. Returns an empty MegatronTraining if no rank
/// has any optimizer state. Does not throw if they are not usable, if the first rank's file has none although others
/// exist, or if all distrib_optim.pt are missing, because the weights still are usable. Throws Error(bad_data) for a
/// damaged distrib_optim.pt, and if only some of them are missing.
MegatronTraining read_megatron_training(const MegatronModel& model);

/// Reads the training state from a checkpoint's dict and its arguments. Iterations without an optimizer step count as
/// skipped, and so do samples that the learning-rate schedule did not count. `optimizer_steps` is 0 if the optimizer
/// state does not tell. Throws Error(bad_data) if the iteration or the arguments are missing or out of range.
TrainState megatron_train_state(PickleValue root, const std::optional<PickleValue>& args, std::int64_t optimizer_steps);

}  // namespace mtl
