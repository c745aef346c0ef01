// The variants of attention on tensor cores, which attention_forward() and attention_backward() call.
#pragma once

#include <string>

#include "kernels/cuda.h"

namespace mtl::cuda {

/// Forward of calls that attention_forward_variants() gives to `tiles`, and to `hopper`.
void attention_forward_tiles(Stream& stream, Tensor out, Tensor logsumexp, const AttentionInput& in);
void attention_forward_hopper(Stream& stream, Tensor out, Tensor logsumexp, const AttentionInput& in);

/// True if cuDNN can be opened on this machine.
bool has_cudnn();
/// "cuDNN 91900", or "no cuDNN".
std::string attention_library();
/// Forward of calls that attention_suits_cudnn() accepts; `work` has cudnn_work_bytes(). Throws Error where the library
/// is missing or has no engine for the call. A shape's first call must not be captured as a graph.
void attention_forward_cudnn(Stream& stream, const Tensor& work, const Tensor& out, const Tensor& logsumexp,
                             const AttentionInput& in);

/// Backward of calls that attention_backward_variants() gives to `tiles`. attention_dq_tiles() writes dq and
/// delta = rowsum(dout * out), laid out like logsumexp; attention_dk_dv_tiles() reads delta and must follow.
void attention_dq_tiles(Stream& stream, float* delta, const Qkv& grads, Tensor dout, Tensor out, Tensor logsumexp,
                        const AttentionInput& in);
void attention_dk_dv_tiles(Stream& stream, float* delta, const Qkv& grads, Tensor dout, Tensor out, Tensor logsumexp,
                           const AttentionInput& in);

/// dq, dk, dv and `delta` of backward calls that attention_backward_variants() gives to `hopper`.
void attention_backward_hopper(Stream& stream, float* delta, const Qkv& grads, Tensor dout, Tensor out,
                               Tensor logsumexp, const AttentionInput& in);

}  // namespace mtl::cuda
