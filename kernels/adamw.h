// One AdamW step over a flat range (Kingma, Ba 2015; Loshchilov, Hutter 2019; as in Apex), in fp32:
//
//   g = grad * state.clip_scale / state.loss_scale
//   m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2
//   p = p - lr (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay p),   t = state.step
//
// The StepState provides g's factor and what adamw_factors() computes from t, lr and weight_decay. If found_inf is set,
// nothing changes. Results are rounded to nearest as they are stored, but a bf16 param may be rounded stochastically
// instead. A nonzero update is lost if the stored param keeps its value. The StepState counts lost updates, and
// elements whose param changes while its copy does not.
//
// Stochastic rounding (Gupta et al. 2015) adds 16 random bits below the last bit we keep, then truncates. The random
// bits depend on the element's index in the entire tensor: the Philox counter is (t, element / 8), with 8 elements per
// call as in kernels/dropout.h.
#pragma once

#include "device/step_state.h"
#include "device/stream.h"
#include "kernels/update_range.h"

namespace mtl {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
};

/// Returns the factors of a step: lr / (1 - beta1^t), 1 / sqrt(1 - beta2^t) and lr weight_decay.
UpdateFactors adamw_factors(const StepInputs& step, const AdamWOptions& options);

/// m = beta1 m + new1 g, v = beta2 v + new2 g^2, p -= rate m / (root sqrt(v) + eps) + decay p; g: `grad` times the
/// stored gradient.
struct AdamWFactors : UpdateFactors {
  float grad = 0, beta1, beta2, new1, new2, eps;

  explicit AdamWFactors(const AdamWOptions& options)
      : beta1(static_cast<float>(options.beta1)),
        beta2(static_cast<float>(options.beta2)),
        new1(static_cast<float>(1 - options.beta1)),
        new2(static_cast<float>(1 - options.beta2)),
        eps(static_cast<float>(options.eps)) {}
};

/// Updates the range, whose states are m and v. The state's factors are those of `options`. Adds to nonzero_updates,
/// lost_updates and lost_copies in the state.
void adamw_step(Stream& stream, const UpdateRange& range, const AdamWOptions& options, StepState* state);

}  // namespace mtl
