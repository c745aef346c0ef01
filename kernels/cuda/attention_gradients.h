// Operands of attention's backward on tensor cores.
#pragma once

#include "kernels/cuda/attention_tiles.h"

namespace mtl::cuda {

template <class T>
struct TiledBackward {
  AttentionShape shape;
  Heads<T> q, k, v, out, dout, dq, dk, dv;
  const float* logsumexp;
  float* delta;  // like logsumexp: sum of dout out of a query, which dq's kernel writes
  int tiles;     // of queries, or of keys, in a sequence

  TiledBackward(const AttentionInput& in, const Qkv& grads, const Tensor& dout_rows, const Tensor& out_rows,
                const Tensor& logsumexp_rows, float* delta_rows, std::int64_t tile)
      : shape(in),
        q(in.qkv.q),
        k(in.qkv.k),
        v(in.qkv.v),
        out(out_rows, in.sizes()),
        dout(dout_rows, in.sizes()),
        dq(grads.q),
        dk(grads.k),
        dv(grads.v),
        logsumexp(logsumexp_rows.data<float>()),
        delta(delta_rows),
        tiles(static_cast<int>((in.sizes().queries + tile - 1) / tile)) {}
};

}  // namespace mtl::cuda
