// A run's precision: the dtype of each role. Presets are in optim/precision_presets.h.
//
// If the main weights' dtype differs from the compute dtype, the optimizer updates the main weights, and layers read a
// copy of them, rounded to the compute dtype after each update. Otherwise it updates the weights that layers read, and
// an update of less than half a unit in the last place of its weight is lost.
#pragma once

#include "device/dtype.h"

namespace mtl {

struct Precision {
  DType compute = DType::f32;        // of activations, of the weights that layers read, of matrix products' operands
  DType residual = DType::f32;       // of the residual stream: f32 or the compute dtype
  DType load = DType::f32;           // initial and loaded weights are rounded to it first
  DType main_params = DType::f32;    // the weights that the optimizer updates: f32 or the compute dtype
  DType main_grads = DType::f32;     // sums over micro-batches and, in storage, over ranks; arithmetic is fp32
  DType exp_avg = DType::f32;        // the first moment
  DType exp_avg_sq = DType::f32;     // the second moment
  bool stochastic_rounding = false;  // of updates, if the main weights are narrower than f32

  bool has_main_params() const { return main_params != compute; }
  bool operator==(const Precision&) const = default;
};

inline constexpr Precision kPrecisionFp32{};

}  // namespace mtl
