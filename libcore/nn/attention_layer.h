// Attention in a GPT block: y = out(attention(qkv(x))). Heads are split over the tensor-parallel ranks: `qkv` is
// column-parallel and `out` is row-parallel. The block adds the bias of `out` after summing over ranks. Between `qkv`
// and attention, queries and keys can be normalized head by head, and then rotated by position. R = H / G query heads
// share one key head and one value head. With context parallelism, T below is this rank's part of each sequence, and
// attention exchanges keys and values with the other ranks (nn/context_region.h).
#pragma once

#include "kernels/attention.h"
#include "kernels/qk_norm_rotary.h"
#include "nn/batch.h"
#include "nn/context_region.h"
#include "nn/model_build.h"
#include "nn/tp_region.h"

namespace mtl {

struct AttentionLayer {
  GptConfig config;
  std::int64_t window = 0;     // AttentionInput::window
  bool is_recomputed = false;  // forward discards attention's output, and backward recomputes it
  Dropout dropout;             // applied to the attention probabilities
  TpRegion region;
  ContextRegion context;
  Param qkv, qkv_bias;   // (G/tp, R+2, D, C), (G/tp, R+2, D); qkv_bias exists only if config.bias.qkv
  Param q_norm, k_norm;  // (D); only with qk_norm
  Param out, out_bias;   // (C, H D / tp), (C); out_bias exists only if config.bias.out

  struct Cache {
    Tensor x;          // (n, C), the layer's input
    Tensor projected;  // (B, T, G/tp, R+2, D), output of the linear layer `qkv`
    Tensor qkv;        // queries and keys after norm and rotation; with qk_norm, v is only in `projected`
    Tensor q_rstd;     // (B, T, G/tp, R) fp32; only with qk_norm
    Tensor k_rstd;     // (B, T, G/tp, 1) fp32; only with qk_norm
    Tensor attended;   // (B, T, H/tp, D); absent if backward recomputes it
    Tensor logsumexp;  // (B, H/tp, T) fp32; kept like `attended`; absent in decoding
    KvCache past;      // decoding: keys and values of the preceding positions; absent otherwise
  };

  AttentionLayer(const ModelBuild& build, std::int64_t layer);
  void params(const ParamVisitor& visit, const std::string& prefix);
  /// x and the result are (n, C): this rank holds n of the N = B T rows outside the region. x must not change until
  /// backward. The result is in scratch memory and does not include the bias of `out`. With cache.past, each sequence's
  /// T new positions follow the cached positions; such a pass has no backward.
  Tensor forward(Ctx& ctx, Tensor x, const Batch& batch, Cache& cache) const;
  /// dy (n, C) must be in the slot, because queued weight gradients will read it later. Returns dx (n, C) in scratch
  /// memory.
  Tensor backward(Ctx& ctx, Tensor dy, const Batch& batch, const Cache& cache) const;

 private:
  std::int64_t heads_per_group() const { return config.num_heads / config.num_query_groups; }
  AttentionInput input(const Ctx& ctx, const Cache& cache, const Batch& batch) const;
  void project_qkv(Ctx& ctx, Tensor x, const Batch& batch, Cache& cache) const;
  QkNorm norm_of(const Batch& batch, const Cache& cache) const;
  void normalize(Ctx& ctx, const Batch& batch, Cache& cache) const;
  Tensor make_attended(Arena& memory, const Cache& cache) const;
  Tensor make_logsumexp(Arena& memory, const Cache& cache) const;
  void prepare_backward(Ctx& ctx, Tensor dqkv, const Batch& batch, const Cache& cache) const;
  Tensor project_out(Ctx& ctx, Tensor out_rows, Tensor attended) const;
};

}  // namespace mtl
