// The MLP of a GPT block: y = down(act(up(x))), or gated (Shazeer 2020) y = down(act(gate(x)) * up(x)), where `up`
// holds the weights of both, the gate's first. `up` is column-parallel, `down` row-parallel; the bias of `down`
// comes after the sum over ranks, so the block adds it (kernels/residual.h).
#pragma once

#include "kernels/gemm.h"
#include "nn/gpt_config.h"
#include "nn/tp_region.h"

namespace mtl {

struct Mlp {
  std::int64_t hidden = 0;  // C
  std::int64_t ffn = 0;     // F
  float init_std = 0, output_init_std = 0;
  bool has_bias = true;
  bool gated = false;
  Activation activation = Activation::gelu_tanh;
  TpRegion region;
  Param up, up_bias;      // (F/tp, C), (F/tp), gated (2, F/tp, C), (2, F/tp); biases only with has_bias
  Param down, down_bias;  // (C, F/tp), (C)

  struct Cache {
    Tensor x;    // (n, C)    the input
    Tensor pre;  // (N, F/tp) before the activation; gated (N, 2 F/tp), the gate first
    Tensor act;  // (N, F/tp) the input of `down`
  };

  Mlp() = default;
  Mlp(const GptConfig& config, TpRegion tp_region);
  void params(const ParamVisitor& visit, const std::string& prefix);
  /// x, result (n, C): n of the N rows are outside the region. The result is in scratch, without the bias of `down`.
  Tensor forward(Ctx& ctx, Tensor x, Cache& cache) const;
  /// dy (n, C), in the slot. Returns dx in scratch.
  Tensor backward(Ctx& ctx, Tensor dy, const Cache& cache) const;

 private:
  /// `up` as a matrix of F/tp rows, 2 F/tp if gated; and its bias, if it has one.
  Tensor up_matrix() const { return up.value.view({up.value.numel() / hidden, hidden}); }
  Tensor up_bias_row() const { return up_bias.exists() ? up_bias.value.view({up_bias.value.numel()}) : Tensor(); }
};

}  // namespace mtl
