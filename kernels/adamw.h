// One AdamW step over a flat range (Kingma, Ba 2015; Loshchilov, Hutter 2019; in apex' form):
//
//   g = grad * state.clip_scale / state.loss_scale
//   m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2
//   p = p - lr (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay p),   t = state.step
//
// lr, weight_decay, t and the factors are read from the StepState; with found_inf set nothing changes.
#pragma once

#include "device/step_state.h"
#include "device/stream.h"
#include "device/tensor.h"

namespace mtl {

struct AdamWRange {
  Tensor param, grad, exp_avg, exp_avg_sq;  // (n) fp32 each
  bool decays = true;                       // whether weight decay applies
};

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
};

void adamw_step(Stream& stream, const AdamWRange& range, const AdamWOptions& options, const StepState* state);

}  // namespace mtl
