// MLP activation functions, and the gated MLP.
//
//   gelu_tanh     x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))   Hendrycks, Gimpel 2016, the tanh form
//   gelu_erf      x/2 (1 + erf(x / sqrt(2)))                      the same paper, exact
//   relu          max(x, 0)
//   squared_relu  max(x, 0)^2                                     So et al. 2021
//   silu          x / (1 + e^-x)                                  Elfwing et al. 2017
//
// A gated MLP (Shazeer 2020; SwiGLU if the function is silu) multiplies the outputs of two linear layers. Both are in
// one tensor, pre (N, 2 F), with rows [gate (F) | up (F)].
//   forward    out = activation(gate) * up
//   backward   dgate = dout * up * activation'(gate),  dup = dout * activation(gate)
//
// All tensors have the compute dtype T (kernels/stream_types.h). Arithmetic is fp32, and each element is rounded to T
// once. In an MLP without a gate, kernels/gemm.h applies the activation.
#pragma once

#include <array>

#include "device/stream.h"
#include "device/tensor.h"

namespace mtl {

enum class Activation { gelu_tanh, gelu_erf, relu, squared_relu, silu };
/// The names in checkpoints and flags, in the order of the enum.
inline constexpr std::array kActivationNames = {"gelu_tanh", "gelu_erf", "relu", "squared_relu", "silu"};

/// Writes out (N, F).
void gated_forward(Stream& stream, Tensor out, Tensor pre, Activation activation);
/// Writes dpre (N, 2 F), laid out like pre. dpre can be pre itself.
void gated_backward(Stream& stream, Tensor dpre, Tensor dout, Tensor pre, Activation activation);

}  // namespace mtl
