// The end of a step: reduced gradients, norm and clip, the update of the owned ranges, values to all ranks.
#pragma once

#include "comm/groups.h"
#include "device/memory.h"
#include "optim/grad_sync.h"

namespace mtl {

class Optimizer {
 public:
  struct Options {
    AdamW rule;
    double clip_grad = 1.0;  // largest global gradient norm; 0: no clipping
    GradSync::Overlap overlap;
  };

  Optimizer(ParamStore& params, Options options, Stream& stream, const ProcessGroups& groups);

  /// Before the first micro-batch of a step.
  void begin_step() { sync_.begin_step(); }
  /// To be told by the layers how far they are.
  GradSync& sync() { return sync_; }
  /// After the last backward of a step: sums gradients over the ranks, sets grad_norm, clip_scale and found_inf of
  /// `state`, and updates every owned range unless found_inf. Values may arrive later: see GradSync.
  void step(Arena& scratch, StepState* state);

 private:
  void gradient_norm(Arena& scratch, StepState* state);
  void update(const StepState* state);

  ParamStore& params_;
  Options options_;
  Stream& stream_;
  const ProcessGroups& groups_;
  GradSync sync_;
};

}  // namespace mtl
