// The functions in kernels/activation.h and their derivatives, for packs of elements. The function is selected at run
// time, once per pack. Selecting it per element would need an indirect jump for each, so that elements would be
// computed one after another.
#pragma once

#include "kernels/activation.h"
#include "kernels/cuda/pack.h"

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

template <int n>
struct Gates {
  Pack<n> value, slope;
};

template <int n>
__device__ Gates<n> gates_of(Activation activation, const Pack<n>& x) {
  constexpr float kRoot2OverPi = 0.7978845608f, kCubic = 0.044715f, kRootHalf = 0.7071067812f, kDensity = 0.3989422804f;
  Gates<n> out{};
  const auto with_each = [&](const auto& gate_of) {
#pragma unroll
    for (int j = 0; j < n; ++j) {
      const Gate gate = gate_of(x[j]);
      out.value[j] = gate.value;
      out.slope[j] = gate.slope;
    }
  };
  switch (activation) {
    case Activation::gelu_tanh:  // (1 + tanh(u)) / 2 is the sigmoid of 2 u
      with_each([](float z) {
        const float z2 = z * z;
        return sigmoid_gate(2 * kRoot2OverPi * z * (1 + kCubic * z2), 2 * kRoot2OverPi * (1 + 3 * kCubic * z2));
      });
      break;
    case Activation::gelu_erf:
      with_each([](float z) { return Gate{0.5f * erfcf(-z * kRootHalf), kDensity * expf(-0.5f * z * z)}; });
      break;
    case Activation::relu:
      with_each([](float z) { return Gate{z > 0 ? 1.0f : 0.0f, 0}; });
      break;
    case Activation::squared_relu:
      with_each([](float z) { return Gate{z > 0 ? z : 0.0f, z > 0 ? 1.0f : 0.0f}; });
      break;
    case Activation::silu:
      with_each([](float z) { return sigmoid_gate(z, 1); });
      break;
  }
  return out;
}

}  // namespace mtl::cuda
