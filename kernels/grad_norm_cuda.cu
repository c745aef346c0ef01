// One thread: nothing here is worth more.
#include "kernels/cuda.h"
#include "kernels/cuda/platform.h"

namespace mtl::cuda {

namespace {

__global__ void finish_norm(StepState* state, const double* sum, double max_norm) {
  if (threadIdx.x != 0) return;
  const double norm = sqrt(*sum) / state->loss_scale, limited = max_norm / (norm + 1e-6);
  state->grad_norm = norm;
  const bool follows_none = state->assumes_update != 0 && state->found_inf != 0;  // still of the step before
  state->found_inf = norm < INFINITY && !follows_none ? 0 : 1;                    // NaN is not smaller
  state->clip_scale = max_norm > 0 && limited < 1 ? limited : 1.0;
  state->nonzero_updates = state->lost_updates = state->lost_copies = 0;
}

}  // namespace

void finish_grad_norm(Stream& stream, StepState* state, Tensor sum, double max_norm) {
  launch(stream, finish_norm, {1, kWarp}, state, sum.data<double>(), max_norm);
}

}  // namespace mtl::cuda
