// A run's precision: the dtype for each role. Presets are in optim/precision_presets.h.
//
// If the main weights' dtype differs from the compute dtype, the optimizer updates the main weights, and layers read a
// copy that is rounded to the compute dtype after each update. Otherwise, the optimizer updates the weights that layers
// read, and updates smaller than half a unit in the weight's last place are lost.
#pragma once

#include "device/dtype.h"

namespace mtl {

struct Precision {
  DType compute = DType::f32;        // activations, weights that layers read, GEMM operands
  DType residual = DType::f32;       // the residual stream: f32 or the compute dtype
  DType load = DType::f32;           // initial and loaded weights are first rounded to this dtype
  DType main_params = DType::f32;    // weights that the optimizer updates: f32 or the compute dtype
  DType main_grads = DType::f32;     // stored gradient sums over micro-batches and ranks; arithmetic is fp32
  DType exp_avg = DType::f32;        // the first moment
  DType exp_avg_sq = DType::f32;     // the second moment
  bool stochastic_rounding = false;  // for updates, if the main weights are narrower than f32

  bool has_main_params() const { return main_params != compute; }
  bool operator==(const Precision&) const = default;
};

inline constexpr Precision kPrecisionFp32{};

}  // namespace mtl
