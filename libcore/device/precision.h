// A run's precision: the dtype for each role. See optim/precision_presets.h for presets.
//
// If the main weights' dtype differs from the compute dtype, the optimizer updates the main weights. Layers read a
// copy, which is rounded to the compute dtype after each update. Otherwise, the optimizer directly updates the weights
// that layers read, and updates smaller than half a unit in the weight's last place are lost.
#pragma once

#include "device/dtype.h"

namespace mtl {

struct Precision {
  DType compute = DType::f32;        // activations, weights read by layers, GEMM operands
  DType residual = DType::f32;       // residual stream: f32 or the compute dtype
  DType logits = DType::f32;         // f32, or bf16 if that is the compute dtype; their gradient has that
  DType load = DType::f32;           // initial and loaded weights are first rounded to this
  DType main_params = DType::f32;    // weights updated by the optimizer: f32 or the compute dtype
  DType main_grads = DType::f32;     // stored gradient sums over micro-batches and ranks; arithmetic is fp32
  DType exp_avg = DType::f32;        // first moment
  DType exp_avg_sq = DType::f32;     // second moment
  bool stochastic_rounding = false;  // for updates to main weights narrower than f32

  bool has_main_params() const { return main_params != compute; }
  bool operator==(const Precision&) const = default;
};

inline constexpr Precision kPrecisionFp32{};

}  // namespace mtl
