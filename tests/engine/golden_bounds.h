// Bounds of the differences between whole models and float64, by dtype and device: the one table of the golden tests.
#pragma once

#include "device/dtype.h"
#include "tests/device_under_test.h"

namespace mtl::test {

/// Relative bounds. For tensors: the largest difference, relative to the largest element.
struct GoldenBounds {
  double token_loss;  // per token
  double loss;        // mean over all tokens
  double grad_norm;
  double gradient;    // per parameter; in 16 bits the rms over all parameters
  double activation;  // activations and logits
  double weights;     // after 30 steps; a tenth of it bounds their rms, all of it the moments' rms
};

/// The bounds of a model that computes in `dtype` on the device under test. In fp32 the cpu is several times closer
/// than its bounds. A GPU adds products in another order: its bounds are those of fp32 sums of 1,000 terms without
/// TF32.
inline GoldenBounds golden_bounds(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return {2e-2, 2e-3, 3e-2, 3e-2, 3e-2, 3e-2};
    case DType::f16:
      return {2e-3, 2e-4, 4e-3, 4e-3, 4e-3, 4e-3};
    default:
      if (device_under_test() == Device::cpu) return {2e-6, 2e-6, 3e-6, 2e-5, 1e-5, 3e-5};
      return {5e-6, 5e-6, 1e-5, 5e-5, 3e-5, 1e-4};
  }
}

}  // namespace mtl::test
