// One AdamW step over a flat range (Kingma, Ba 2015; Loshchilov, Hutter 2019; as in Apex), in fp32:
//
//   g = grad * state.clip_scale / state.loss_scale
//   m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2
//   p = p - lr (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay p),   t = state.step
//
// The StepState provides t and the UpdateFactors, which finish_grad_norm() computes once per step from lr,
// weight_decay, t, the scale factors and the same options. If found_inf is set, nothing changes. Each tensor may have a
// different dtype (f32, bf16, f16). Results are rounded to nearest as they are stored, but a bf16 param may be rounded
// stochastically instead. A nonzero update is lost if the stored param keeps its value. The StepState counts lost
// updates, and elements whose param changes while its copy does not.
//
// Stochastic rounding (Gupta et al. 2015) adds 16 random bits below the last bit we keep, then truncates. The random
// bits depend on the element's index in the entire tensor: the Philox counter is (t, element / 8), with 8 elements per
// call as in kernels/dropout.h.
#pragma once

#include <cstdint>
#include <optional>

#include "device/philox.h"
#include "device/step_state.h"
#include "device/stream.h"
#include "device/tensor.h"

namespace mtl {

/// Maps a range's elements to their indices in the entire tensor: element i has index first + (j / inner) * pitch + j %
/// inner, where j = skipped + i. In other words, the range contains `inner` out of every `pitch` elements.
struct ElementMap {
  std::int64_t first = 0, inner = 1, pitch = 1, skipped = 0;
};

struct AdamWRange {
  Tensor param, grad, exp_avg, exp_avg_sq;  // (n) each
  bool decays = true;                       // weight decay applies
  Tensor copy{};                            // (n) param in the compute dtype; absent if layers read param itself
  std::optional<PhiloxKey> rounding{};      // if given, rounds a bf16 param stochastically
  ElementMap elements{};
};

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
};

/// m = beta1 m + new1 g, v = beta2 v + new2 g^2, p -= rate m / (root sqrt(v) + eps) + decay p; g: `grad` times the
/// stored gradient.
struct AdamWFactors : UpdateFactors {
  float beta1, beta2, new1, new2, eps;

  AdamWFactors(const UpdateFactors& step, const AdamWOptions& options)
      : UpdateFactors(step),
        beta1(static_cast<float>(options.beta1)),
        beta2(static_cast<float>(options.beta2)),
        new1(static_cast<float>(1 - options.beta1)),
        new2(static_cast<float>(1 - options.beta2)),
        eps(static_cast<float>(options.eps)) {}
};

/// Updates the range. The state's factors are those of `options`. Adds to nonzero_updates, lost_updates and lost_copies
/// in the state.
void adamw_step(Stream& stream, const AdamWRange& range, const AdamWOptions& options, StepState* state);

}  // namespace mtl
