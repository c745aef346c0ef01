// The MLP of a GPT block: y = down(gelu(up(x))). `up` is column-parallel, `down` row-parallel; the bias of `down` comes
// after the sum over ranks, so the block adds it (kernels/residual.h).
#pragma once

#include "nn/gpt_config.h"
#include "nn/tp_region.h"

namespace mtl {

struct Mlp {
  std::int64_t hidden = 0;  // C
  std::int64_t ffn = 0;     // F
  float init_std = 0, output_init_std = 0;
  bool has_bias = true;
  TpRegion region;
  Param up, up_bias;      // (F/tp, C), (F/tp); biases only with has_bias
  Param down, down_bias;  // (C, F/tp), (C)

  struct Cache {
    Tensor x;    // (n, C)    as it entered
    Tensor pre;  // (N, F/tp) before gelu
    Tensor act;  // (N, F/tp) after gelu
  };

  Mlp() = default;
  Mlp(const GptConfig& config, TpRegion around);
  void params(const ParamVisitor& visit, const std::string& prefix);
  /// x, result (n, C), n of the N rows outside the region; the result is in scratch and has no bias yet.
  Tensor forward(Ctx& ctx, Tensor x, Cache& cache) const;
  /// dy (n, C), in the slot. Returns dx in scratch.
  Tensor backward(Ctx& ctx, Tensor dy, const Cache& cache) const;
};

}  // namespace mtl
