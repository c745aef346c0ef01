// A run's precision: the dtype of each role. Presets are in optim/precision_presets.h.
//
// If the dtype of the main weights differs from the compute dtype, the optimizer updates the main weights, and layers
// read a copy that is rounded to the compute dtype after each update. Otherwise, the optimizer updates the weights that
// layers read, and an update that is smaller than half a unit in the last place of the weight is lost.
#pragma once

#include "device/dtype.h"

namespace mtl {

struct Precision {
  DType compute = DType::f32;        // of activations, of weights that layers read, of operands of matrix products
  DType residual = DType::f32;       // of the residual stream: f32 or the compute dtype
  DType load = DType::f32;           // initial and loaded weights are first rounded to this dtype
  DType main_params = DType::f32;    // the weights that the optimizer updates: f32 or the compute dtype
  DType main_grads = DType::f32;     // storage of gradient sums over micro-batches and ranks; arithmetic is fp32
  DType exp_avg = DType::f32;        // the first moment
  DType exp_avg_sq = DType::f32;     // the second moment
  bool stochastic_rounding = false;  // of updates, if the main weights are narrower than f32

  bool has_main_params() const { return main_params != compute; }
  bool operator==(const Precision&) const = default;
};

inline constexpr Precision kPrecisionFp32{};

}  // namespace mtl
