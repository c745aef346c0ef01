// What changes from step to step. It lives where operators run and is read through a pointer, so that a captured
// step (a CUDA graph) sees new values without being captured again.
#pragma once

#include <cstdint>

namespace mtl {

struct StepState {
  std::int64_t iteration = 0;    // the current one, from 1
  std::int64_t step = 0;         // optimizer steps begun, 1 in the first
  double lr = 0;                 // of this step
  double weight_decay = 0;       // of this step
  double loss_scale = 1;         // gradients carry this factor
  double clip_scale = 1;         // gradients are multiplied by it in the update
  double grad_norm = 0;          // global, before clipping, loss scale taken out
  std::int32_t found_inf = 0;    // the norm is not finite: the update is skipped
  std::int32_t micro_batch = 0;  // the current one of the step
};

}  // namespace mtl
