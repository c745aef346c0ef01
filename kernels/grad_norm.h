// The gradient norm and the clip factor, from the sum of squares of all gradients, without a host synchronization.
//
//   grad_norm = sqrt(sum) / loss_scale,  found_inf = not finite,  clip_scale = min(1, max_norm / (grad_norm + 1e-6))
//
// Before the call, found_inf is the previous step's: if it is set and the step assumes that the previous update was
// made (assumes_update), it stays set. max_norm <= 0 turns clipping off. The counts of updates are reset to 0.
#pragma once

#include "device/step_state.h"
#include "device/stream.h"
#include "device/tensor.h"

namespace mtl {

/// `sum` (1) f64 is the sum of squares over all ranks. Writes the StepReport of `state` except its loss_sum.
void finish_grad_norm(Stream& stream, StepState* state, Tensor sum, double max_norm);

}  // namespace mtl
