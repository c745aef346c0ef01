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
  bool has_bias = true;
  Dropout dropout;  // on the probabilities
  TpRegion region;
  Param qkv, qkv_bias;  // (G/tp, R+2, D, C), (G/tp, R+2, D); biases only with has_bias
  Param out, out_bias;  // (C, H D / tp), (C)

  struct Cache {
    Tensor x;          // (n, C) as it entered
    Tensor qkv;        // (B, T, G/tp, R+2, D)
    Tensor attended;   // (B, T, H/tp, D)
    Tensor logsumexp;  // (B, H/tp, T)
    KvCache past;      // decoding: positions that the new ones follow; left out otherwise
  };

  AttentionLayer() = default;
  AttentionLayer(const GptConfig& config, Dropout probability_dropout, TpRegion around);
  void params(const ParamVisitor& visit, const std::string& prefix);
  /// x, result (n, C), n of the N = B T rows outside the region; the result is in scratch and has no bias yet. With
  /// cache.past the T new positions of each sequence follow those that it holds; backward does not know it.
  Tensor forward(Ctx& ctx, Tensor x, const Batch& batch, Cache& cache) const;
  /// dy (n, C), in the slot. Returns dx in scratch.
  Tensor backward(Ctx& ctx, Tensor dy, const Batch& batch, const Cache& cache) const;

 private:
  AttentionInput input(const Ctx& ctx, Tensor packed, const Batch& batch) const;
  Tensor project_qkv(Ctx& ctx, Tensor x, std::int64_t sequences) const;
  Tensor project_out(Ctx& ctx, Tensor out_rows, Tensor attended) const;
};

}  // namespace mtl
