// Attention's tensor-core variants, which attention_forward() and attention_backward() call.
#pragma once

#include <string>

#include "kernels/cuda.h"

namespace mtl::cuda {

/// Compute forward with the variants `tiles` and `hopper`. attention_forward_variants() must list them for the call.
void attention_forward_tiles(Stream& stream, Tensor out, Tensor logsumexp, const AttentionInput& in);
void attention_forward_hopper(Stream& stream, Tensor out, Tensor logsumexp, const AttentionInput& in);

/// Returns true if cuDNN can be opened on this machine.
bool has_cudnn();
/// Returns "cuDNN 91900", or "no cuDNN".
std::string attention_library();
/// Computes forward with cuDNN. attention_suits_cudnn() must be true for the call, and `work` must have
/// cudnn_work_bytes() bytes. Throws Error if the library is missing or has no engine for the call. The first call with
/// a given shape must not be captured as a graph.
void attention_forward_cudnn(Stream& stream, const Tensor& work, const Tensor& out, const Tensor& logsumexp,
                             const AttentionInput& in);

/// Backward's workspace: memory of attention_backward_work() bytes, 16-byte aligned.
struct BackwardWork {
  float* partials;  // dk and dv of the parts (B, G, parts, Tk, 2, D), before scaling; none unless there are several
  float* delta;     // rowsum(dout * out), laid out like logsumexp
  BackwardWork(const Tensor& memory, const AttentionInput& in);
};

/// Compute backward with the variant `tiles`, which attention_backward_variants() must list for the call.
/// attention_dq_tiles() writes dq and delta. attention_dk_dv_tiles() reads delta and must be called afterwards.
void attention_dq_tiles(Stream& stream, const BackwardWork& work, const Qkv& grads, Tensor dout, Tensor out,
                        Tensor logsumexp, const AttentionInput& in);
void attention_dk_dv_tiles(Stream& stream, const BackwardWork& work, const Qkv& grads, Tensor dout, Tensor out,
                           Tensor logsumexp, const AttentionInput& in);

/// Writes dq, dk, dv and delta with the variant `hopper`, which attention_backward_variants() must list for the call.
void attention_backward_hopper(Stream& stream, const BackwardWork& work, const Qkv& grads, Tensor dout, Tensor out,
                               Tensor logsumexp, const AttentionInput& in);

/// The last step of `tiles` and `hopper`: writes dk and dv, the sums of work.partials in the order of the parts. Does
/// nothing if there is one part, whose blocks have written dk and dv.
void attention_add_parts(Stream& stream, const BackwardWork& work, const Qkv& grads, const AttentionInput& in);

}  // namespace mtl::cuda
