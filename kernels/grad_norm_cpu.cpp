#include <algorithm>
#include <cmath>

#include "kernels/cpu.h"

namespace mtl::cpu {

void finish_grad_norm(Stream&, StepState* state, Tensor sum, double max_norm) {
  const double divisor = state->loss_scale * state->token_share, norm = std::sqrt(*sum.data<double>()) / divisor;
  state->grad_norm = norm;
  // found_inf still has its value from the previous step.
  const bool lacks_update = state->assumes_update != 0 && state->found_inf != 0;
  state->found_inf = std::isfinite(norm) && !lacks_update ? 0 : 1;
  state->clip_scale = 1;
  state->nonzero_updates = state->lost_updates = state->lost_copies = 0;
  if (max_norm > 0) state->clip_scale = std::min(1.0, max_norm / (norm + 1e-6));
  state->grad_factor = static_cast<float>(state->clip_scale / divisor);
}

}  // namespace mtl::cpu
