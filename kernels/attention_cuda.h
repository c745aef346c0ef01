// Attention on tensor cores, the fast way of attention_cuda*.cu.
#pragma once

#include "kernels/cuda.h"

namespace mtl::cuda {

/// Forward in bf16 or f16 for heads of 64, 80, 96 or 128 elements in rows that begin at multiples of 16 bytes. Returns
/// false for anything else, and computes nothing then.
bool attention_forward_tiles(Stream& stream, Tensor out, Tensor logsumexp, const AttentionInput& in);

/// The same for heads of 64 or 128 elements, of whole sequences, on a GPU of compute capability 9.0; the caller sees to
/// that.
void attention_forward_hopper(Stream& stream, Tensor out, Tensor logsumexp, const AttentionInput& in);

/// Like attention_forward_tiles, dq of backward; writes `delta`, which is laid out like logsumexp. Then dk and dv,
/// which read it.
bool attention_dq_tiles(Stream& stream, float* delta, const Qkv& grads, Tensor dout, Tensor out, Tensor logsumexp,
                        const AttentionInput& in);
void attention_dk_dv_tiles(Stream& stream, float* delta, const Qkv& grads, Tensor dout, Tensor out, Tensor logsumexp,
                           const AttentionInput& in);

}  // namespace mtl::cuda
