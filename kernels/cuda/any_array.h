// Flat operands whose dtype is known only at run time. Branching on the dtype is cheap: all threads take the same
// branch, and the kernels are memory-bound.
#pragma once

#include "kernels/cuda/flat.h"

namespace mtl::cuda {

/// An array of float, Bf16 or Half. `data` is null if the operand is absent.
struct AnyArray {
  void* data = nullptr;
  DType dtype = DType::f32;

  AnyArray() = default;
  explicit AnyArray(const Tensor& tensor) : data(tensor.exists() ? tensor.raw() : nullptr), dtype(tensor.dtype()) {}
};

template <int n>
__device__ Pack<n> load(const AnyArray& array, std::int64_t i) {
  if (array.dtype == DType::bf16) return load<n>(static_cast<const Bf16*>(array.data) + i);
  if (array.dtype == DType::f16) return load<n>(static_cast<const Half*>(array.data) + i);
  return load<n>(static_cast<const float*>(array.data) + i);
}

/// Rounds to nearest even.
template <int n>
__device__ void store(const AnyArray& array, std::int64_t i, const Pack<n>& pack) {
  if (array.dtype == DType::bf16) return store(static_cast<Bf16*>(array.data) + i, pack);
  if (array.dtype == DType::f16) return store(static_cast<Half*>(array.data) + i, pack);
  store(static_cast<float*>(array.data) + i, pack);
}

/// Returns the value, rounded like store().
__device__ inline float rounded(DType dtype, float value) {
  if (dtype == DType::bf16) return to_float(from_float<Bf16>(value));
  if (dtype == DType::f16) return to_float(from_float<Half>(value));
  return value;
}

}  // namespace mtl::cuda
