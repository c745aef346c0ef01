// The activation functions of an MLP.
//
//   gelu_tanh     x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))   Hendrycks, Gimpel 2016, the tanh form
//   gelu_erf      x/2 (1 + erf(x / sqrt(2)))                      the same paper, exact
//   relu          max(x, 0)
//   squared_relu  max(x, 0)^2                                     So et al. 2021
//   silu          x / (1 + e^-x)                                  Elfwing et al. 2017
#pragma once

namespace mtl {

enum class Activation { gelu_tanh, gelu_erf, relu, squared_relu, silu };

}  // namespace mtl
