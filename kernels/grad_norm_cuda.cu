// Uses one thread, for a handful of scalar operations.
#include "kernels/cuda.h"
#include "kernels/cuda/platform.h"

namespace mtl::cuda {

namespace {

__global__ void finish_norm(StepState* state, const double* sum, double max_norm) {
  if (threadIdx.x != 0) return;
  const double divisor = state->loss_scale * state->token_share;
  const double norm = sqrt(*sum) / divisor, limited = max_norm / (norm + 1e-6);
  state->grad_norm = norm;
  // found_inf still has its value from the previous step.
  const bool lacks_update = state->assumes_update != 0 && state->found_inf != 0;
  state->found_inf = norm < INFINITY && !lacks_update ? 0 : 1;  // false for a NaN, too
  state->clip_scale = max_norm > 0 && limited < 1 ? limited : 1.0;
  state->nonzero_updates = state->lost_updates = state->lost_copies = 0;
  state->grad_factor = static_cast<float>(state->clip_scale / divisor);
}

}  // namespace

void finish_grad_norm(Stream& stream, StepState* state, Tensor sum, double max_norm) {
  launch(stream, finish_norm, {1, kWarp}, state, sum.data<double>(), max_norm);
}

}  // namespace mtl::cuda
