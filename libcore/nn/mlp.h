// The MLP in a GPT block: y = down(act(up(x))), or gated (Shazeer 2020), y = down(act(gate(x)) * up(x)), where `up`
// holds the weights for gate and then for up. `up` is column-parallel and `down` is row-parallel. The block adds the
// bias of `down` after summing over ranks (kernels/residual.h).
#pragma once

#include "kernels/gemm.h"
#include "nn/gpt_config.h"
#include "nn/tp_region.h"

namespace mtl {

struct Mlp {
  GptConfig config;
  TpRegion region;
  Param up, up_bias;  // (F/tp, C), (F/tp); if gated, (2, F/tp, C), (2, F/tp). Biases exist only with config.bias.mlp
  Param down, down_bias;  // (C, F/tp), (C)

  struct Cache {
    Tensor x;    // (n, C)    the input
    Tensor pre;  // (N, F/tp), the activation's input; if gated, (N, 2 F/tp), gate before up
    Tensor act;  // (N, F/tp), the input of `down`
  };

  Mlp(const GptConfig& model, TpRegion tp_region) : config(model), region(tp_region) {}
  void params(const ParamVisitor& visit, const std::string& prefix);
  /// x and the result are (n, C): this rank holds n of the N rows outside the region. x must not change until backward.
  /// The result is in scratch memory and does not include the bias of `down`.
  Tensor forward(Ctx& ctx, Tensor x, Cache& cache) const;
  /// dy (n, C) must be in the slot, because queued weight gradients will read it later. Returns dx (n, C) in scratch
  /// memory.
  Tensor backward(Ctx& ctx, Tensor dy, const Cache& cache) const;

 private:
  /// Returns `up` as a matrix with F/tp rows, or 2 F/tp rows if gated.
  Tensor up_matrix() const { return up.value.view({up.value.numel() / config.hidden_size, config.hidden_size}); }
  /// Returns the bias of `up` as one row, or no tensor if there is no bias.
  Tensor up_bias_row() const { return up_bias.exists() ? up_bias.value.view({up_bias.value.numel()}) : Tensor(); }
};

}  // namespace mtl
