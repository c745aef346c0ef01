// The data-parallel path of a step: reduce gradients, norm and clip, AdamW on the owned ranges, gather parameters.
// One path for every sharding stage; with one rank the communication is empty.
#pragma once

#include "comm/communicator.h"
#include "device/memory.h"
#include "kernels/adamw.h"
#include "optim/param_store.h"

namespace mtl {

class Optimizer {
 public:
  struct Options {
    AdamWOptions adamw;
    double clip_grad = 1.0;  // largest global gradient norm; 0: no clipping
  };

  Optimizer(ParamStore& params, Options options, const ProcessGroups& groups);

  /// After the last backward of a step: sums gradients over the ranks, sets grad_norm, clip_scale and found_inf of
  /// `state`, and updates every owned range unless found_inf.
  void step(Stream& stream, Arena& scratch, StepState* state);

 private:
  void reduce_gradients(Stream& stream);
  void gradient_norm(Stream& stream, Arena& scratch, StepState* state);
  void update(Stream& stream, const StepState* state);

  ParamStore& params_;
  Options options_;
  const ProcessGroups& groups_;
};

}  // namespace mtl
