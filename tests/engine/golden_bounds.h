// Error bounds of whole models compared with fp64, by dtype and device, for all golden tests.
#pragma once

#include "device/dtype.h"
#include "tests/device_under_test.h"

namespace mtl::test {

/// Bounds of relative errors. For tensors: the largest difference, relative to the largest element.
struct GoldenBounds {
  double token_loss;  // per token
  double loss;        // mean over all tokens
  double grad_norm;
  double gradient;    // of each parameter; in 16 bits: of the rms over all parameters
  double activation;  // of activations and logits
  double weights;     // after 30 steps; a tenth of it for the rms of the weights, all of it for the rms of the moments
};

/// Returns the bounds of a model that computes in `dtype` on the device under test. In fp32, the errors of the cpu are
/// several times smaller than its bounds. A GPU adds products in another order: its bounds are those of fp32 sums of
/// 1,000 terms without TF32.
inline GoldenBounds golden_bounds(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return {
          .token_loss = 2e-2, .loss = 2e-3, .grad_norm = 3e-2, .gradient = 3e-2, .activation = 3e-2, .weights = 3e-2};
    case DType::f16:
      return {
          .token_loss = 2e-3, .loss = 2e-4, .grad_norm = 4e-3, .gradient = 4e-3, .activation = 4e-3, .weights = 4e-3};
    default:
      if (device_under_test() == Device::cpu)
        return {
            .token_loss = 2e-6, .loss = 2e-6, .grad_norm = 3e-6, .gradient = 2e-5, .activation = 1e-5, .weights = 3e-5};
      return {
          .token_loss = 5e-6, .loss = 5e-6, .grad_norm = 1e-5, .gradient = 5e-5, .activation = 3e-5, .weights = 1e-4};
  }
}

}  // namespace mtl::test
