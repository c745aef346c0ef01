// The gradient norm and the clip factor, computed from the squares summed over all gradients, without synchronizing
// with the host.
//
//   grad_norm = sqrt(sum) / (loss_scale token_share),  found_inf = not finite,  clip_scale = min(1, max_norm /
//   (grad_norm + 1e-6))
//
// Before the call, found_inf still has its value from the previous step. If that value is set and the step assumes that
// the previous update was made (assumes_update), found_inf remains set. If max_norm <= 0, gradients are not clipped.
// The update counts are reset to 0.
#pragma once

#include "device/step_state.h"
#include "device/stream.h"
#include "device/tensor.h"

namespace mtl {

/// `sum` (1) f64 is the sum of squares over all ranks. Writes all of the StepReport in `state` except loss_sum, and
/// grad_factor.
void finish_grad_norm(Stream& stream, StepState* state, Tensor sum, double max_norm);

}  // namespace mtl
