// A step of an update rule over a flat range, in fp32. With g = grad * state.clip_scale / state.loss_scale, t =
// state.step:
//
//   AdamW (Kingma, Ba 2015; Loshchilov, Hutter 2019; as in Apex)
//     m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2
//     p = p - lr (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay p)
//   SGD with momentum (as in PyTorch and Megatron-LM: weight decay is part of the gradient, and m starts at 0)
//     m = momentum m + g + weight_decay p
//     p = p - lr m
//   Muon (Jordan et al. 2024; as in Megatron-LM), where f is a function of entire matrices
//     m = momentum m + (1 - momentum) g,   u = m, or (1 - momentum) g + momentum m with Nesterov's
//     p = p - lr (f(u) + weight_decay p)
//
// The StepState provides g's factor and what NAME_factors() computes from t, lr and weight_decay. If found_inf is set,
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
/// Returns the factors of a step: lr and weight_decay, and no root.
UpdateFactors sgd_factors(const StepInputs& step);

/// Update the range, whose states are m and v, or m. The state's factors are those of the rule. Add to nonzero_updates,
/// lost_updates and lost_copies in the state.
void adamw_step(Stream& stream, const UpdateRange& range, const AdamWOptions& options, StepState* state);
void sgd_step(Stream& stream, const UpdateRange& range, double momentum, StepState* state);

struct MuonOptions {
  double momentum = 0.9;
  bool nesterov = false;
};

/// Updates m, the range's only state, and replaces the gradient by u. The range has no param.
void muon_momentum(Stream& stream, const UpdateRange& range, const MuonOptions& options, StepState* state);
/// Updates param, where f(u) is in the place of the gradient. The range has no states. The state's factors are lr and
/// lr weight_decay. Counts like adamw_step().
void descent_step(Stream& stream, const UpdateRange& range, StepState* state);

// What the implementations multiply by: the state's factors, and the rule's options. `grad` multiplies the gradient.

/// m = beta1 m + new1 g, v = beta2 v + new2 g^2, p -= rate m / (root sqrt(v) + eps) + decay p
struct AdamWFactors : UpdateFactors {
  static constexpr std::size_t kStates = 2;
  float grad = 0, beta1, beta2, new1, new2, eps;

  explicit AdamWFactors(const AdamWOptions& options)
      : beta1(static_cast<float>(options.beta1)),
        beta2(static_cast<float>(options.beta2)),
        new1(static_cast<float>(1 - options.beta1)),
        new2(static_cast<float>(1 - options.beta2)),
        eps(static_cast<float>(options.eps)) {}
};

/// m = momentum m + g + decay p, p -= rate m
struct SgdFactors : UpdateFactors {
  static constexpr std::size_t kStates = 1;
  float grad = 0, momentum;

  explicit SgdFactors(double of) : momentum(static_cast<float>(of)) {}
};

/// p -= rate u + decay p
struct DescentFactors : UpdateFactors {
  static constexpr std::size_t kStates = 0;
  float grad = 0;  // not used: u is not a gradient
};

/// m = momentum m + fresh g, u = own g + of_m m
struct MuonFactors {
  float grad = 0, momentum, fresh, own, of_m;

  explicit MuonFactors(const MuonOptions& options)
      : momentum(static_cast<float>(options.momentum)),
        fresh(static_cast<float>(1 - options.momentum)),
        own(options.nesterov ? fresh : 0),
        of_m(options.nesterov ? momentum : 1) {}
};

}  // namespace mtl
