// Precision is a value: what each role is stored or computed in. This version runs the fp32 preset.
#pragma once

#include "device/dtype.h"

namespace mtl {

struct Precision {
  DType compute = DType::f32;      // activations and matrix products
  DType params = DType::f32;       // what layers read
  DType grads = DType::f32;        // accumulation over micro-batches
  DType main_params = DType::f32;  // what the optimizer updates
  DType moments = DType::f32;      // the update rule's states
  DType reduce = DType::f32;       // sums over ranks
  bool operator==(const Precision&) const = default;
};

inline constexpr Precision kPrecisionFp32{};

}  // namespace mtl
