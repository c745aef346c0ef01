// Computes the activation functions and their derivatives in fp64.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/activation.h"

namespace mtl::test {

inline constexpr Activation kActivations[] = {Activation::gelu_tanh, Activation::gelu_erf, Activation::relu,
                                              Activation::squared_relu, Activation::silu};

/// 1 / (1 + e^-x)
inline double reference_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// The u in gelu_tanh(x) = x sigmoid(2 u), and its derivative.
inline double reference_gelu_u(double x) { return std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x); }
inline double reference_gelu_du(double x) { return std::sqrt(2 / std::acos(-1.0)) * (1 + 3 * 0.044715 * x * x); }

/// P(X < x) for a standard normal X, without cancellation for small x.
inline double reference_normal(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

/// The gate(x) in activation(x) = x gate(x). The derivative is gate(x) + x gate'(x).
inline double reference_gate(Activation activation, double x) {
  switch (activation) {
    case Activation::gelu_tanh:
      return reference_sigmoid(2 * reference_gelu_u(x));
    case Activation::gelu_erf:
      return reference_normal(x);
    case Activation::relu:
      return x > 0 ? 1 : 0;
    case Activation::squared_relu:
      return std::max(x, 0.0);
    case Activation::silu:
      return reference_sigmoid(x);
  }
  return NAN;
}

inline double reference_activation(Activation activation, double x) { return x * reference_gate(activation, x); }

inline double reference_activation_derivative(Activation activation, double x) {
  const double gate = reference_gate(activation, x);
  switch (activation) {
    case Activation::gelu_tanh:
      return gate + x * gate * reference_sigmoid(-2 * reference_gelu_u(x)) * 2 * reference_gelu_du(x);
    case Activation::gelu_erf:
      return gate + x * std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0));
    case Activation::relu:
      return gate;
    case Activation::squared_relu:
      return 2 * gate;
    case Activation::silu:
      return gate + x * gate * reference_sigmoid(-x);
  }
  return NAN;
}

}  // namespace mtl::test
