// The functions in kernels/activation.h and their derivatives. Each element selects its function at run time. All
// threads take the same branch, but nvcc 13 makes it an indirect jump per element of a pack, so that one element is
// computed after the other. Callers may be bound by this instead of memory.
#pragma once

#include "kernels/activation.h"
#include "kernels/cuda/platform.h"

namespace mtl::cuda {

/// gate(x) and gate'(x), for a function f(x) = x gate(x) with f'(x) = gate(x) + x gate'(x).
struct Gate {
  float value, slope;
};

/// Returns 1 / (1 + e^-z) and its derivative times `dz`. Avoids cancellation and infinity over infinity.
__device__ inline Gate sigmoid_gate(float z, float dz) {
  const float e = expf(-fabsf(z)), larger = 1 / (1 + e), smaller = e * larger;  // sigmoids of |z| and -|z|
  return {z < 0 ? smaller : larger, larger * smaller * dz};
}

__device__ inline Gate gate_of(Activation activation, float x) {
  constexpr float kRoot2OverPi = 0.7978845608f, kCubic = 0.044715f, kRootHalf = 0.7071067812f, kDensity = 0.3989422804f;
  switch (activation) {
    case Activation::gelu_tanh: {  // (1 + tanh(u)) / 2 is the sigmoid of 2 u
      const float x2 = x * x;
      return sigmoid_gate(2 * kRoot2OverPi * x * (1 + kCubic * x2), 2 * kRoot2OverPi * (1 + 3 * kCubic * x2));
    }
    case Activation::gelu_erf:
      return {0.5f * erfcf(-x * kRootHalf), kDensity * expf(-0.5f * x * x)};
    case Activation::relu:
      return {x > 0 ? 1.0f : 0.0f, 0};
    case Activation::squared_relu:
      return {x > 0 ? x : 0.0f, x > 0 ? 1.0f : 0.0f};
    case Activation::silu:
      return sigmoid_gate(x, 1);
  }
  return {};
}

__device__ inline float activate(Activation activation, float x) { return x * gate_of(activation, x).value; }
__device__ inline float activation_derivative(Activation activation, float x) {
  const Gate gate = gate_of(activation, x);
  return gate.value + x * gate.slope;
}

}  // namespace mtl::cuda
