// The attention of a GPT block: y = out(attention(qkv(x))). Heads are split over the tensor-parallel ranks: `qkv` is
// column-parallel, `out` row-parallel; the bias of `out` comes after the sum over ranks, so the block adds it.
#pragma once

#include "kernels/attention.h"
#include "nn/batch.h"
#include "nn/gpt_config.h"
#include "nn/tp_region.h"

namespace mtl {

struct AttentionLayer {
  std::int64_t hidden = 0, heads = 0, groups = 0, head_dim = 0;
  float init_std = 0, output_init_std = 0;
  Dropout dropout;  // on the probabilities
  TpRegion region;
  Param qkv, qkv_bias;  // (G/tp, R+2, D, C), (G/tp, R+2, D)
  Param out, out_bias;  // (C, H D / tp), (C)

  struct Cache {
    Tensor x;          // (N, C) as it entered
    Tensor qkv;        // (B, T, G/tp, R+2, D)
    Tensor attended;   // (B, T, H/tp, D)
    Tensor logsumexp;  // (B, H/tp, T)
  };

  AttentionLayer() = default;
  AttentionLayer(const GptConfig& config, Dropout probability_dropout);
  void params(const ParamVisitor& visit, const std::string& prefix);
  /// x, result (B, T, C); the result is in scratch and has no bias yet.
  Tensor forward(Ctx& ctx, Tensor x, const Batch& batch, Cache& cache) const;
  /// dy (B, T, C), in the slot. Returns dx in scratch.
  Tensor backward(Ctx& ctx, Tensor dy, const Batch& batch, const Cache& cache) const;
  /// Like forward, for new positions that follow what `kv` holds. Result in scratch.
  Tensor forward_cached(Ctx& ctx, Tensor x, const KvCache& kv) const;

 private:
  AttentionInput input(Tensor packed, const Batch& batch, bool training, const StepState* state) const;
  Tensor project_qkv(Ctx& ctx, Arena& memory, Tensor x) const;
  Tensor project_out(Ctx& ctx, Tensor attended) const;
};

}  // namespace mtl
