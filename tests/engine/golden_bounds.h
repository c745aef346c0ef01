// Error bounds for complete models compared with fp64, by dtype and device. All golden tests use them.
#pragma once

#include "device/dtype.h"
#include "tests/device_under_test.h"

namespace mtl::test {

/// Upper bounds for relative errors. A tensor's error is its largest difference, relative to its largest element.
struct GoldenBounds {
  double token_loss;  // per token
  double loss;        // mean over all tokens
  double grad_norm;
  double gradient;    // per parameter; in 16 bits: rms over all parameters
  double activation;  // activations and logits
  double weights;     // after 30 steps; a tenth of it for the rms of the weights, all of it for the rms of the moments
};

/// Returns the bounds for a model that computes in `dtype` on the device under test. On the cpu, fp32 errors are
/// several times smaller than the bounds. A GPU adds in a different order, so its bounds allow for fp32 sums with 1,000
/// terms, without TF32.
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
