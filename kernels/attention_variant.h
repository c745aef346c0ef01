// The variants of attention on a GPU, and the choice among them for a shape: measured at its first call and stored in
// the stream's choices (device/choices.h), which checkpoints keep. A variant is used only if its results on that very
// call agree with the reference's. The first call of a shape waits for the device, so it must not be captured as a
// graph.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/attention.h"

namespace mtl {

enum class AttentionVariant {
  simple,  // every dtype and shape, and decoding: attention_cuda.cu, attention_cuda_backward.cu
  tiles,   // mma.sync: attention_cuda_tiles*.cu
  hopper,  // wgmma and TMA: attention_cuda_hopper*.cu
  cudnn,   // cuDNN's, forward only: attention_cudnn_cuda.cpp
};

std::string name_of(AttentionVariant variant);

/// The variants that can compute this call on a GPU of this compute capability (80, 90, ...); the first is the
/// reference.
std::vector<AttentionVariant> attention_forward_variants(const AttentionInput& in, const Tensor& out,
                                                         const Tensor& logsumexp, int capability);
std::vector<AttentionVariant> attention_backward_variants(const AttentionInput& in, const Qkv& grads,
                                                          const Tensor& dout, const Tensor& out, int capability);

/// Those of `variants` that the backend allows: all with `automatic`, all but `cudnn` with `flash`; {simple}, which
/// computes every call, with `unfused`; {cudnn} with `fused`, or Error(usage) if `variants` has none, but for the
/// backward, which is flash's.
std::vector<AttentionVariant> allowed_forward_variants(AttentionBackend backend,
                                                       std::vector<AttentionVariant> variants);
std::vector<AttentionVariant> allowed_backward_variants(AttentionBackend backend,
                                                        std::vector<AttentionVariant> variants);

/// True for whole sequences of 16-bit operands with one stride from each query head to the next (one head a group, or
/// one group), without dropout, document boundaries and a window.
bool attention_suits_cudnn(const AttentionInput& in);
/// Bytes of workspace that cuDNN's engines may use; version 9.19's need 0 or 256.
inline constexpr std::int64_t kCudnnWorkspace = 4096;
/// The workspace, and logsumexp where the caller does not want it.
std::size_t cudnn_work_bytes(const AttentionInput& in, const Tensor& logsumexp);

/// True for decoding: one query per head, without logsumexp, documents and dropout. Its keys are split into pieces.
bool attention_decodes(const AttentionInput& in, const Tensor& logsumexp);

/// The key of a call in choices: the properties that its time depends on.
std::string attention_forward_key(const AttentionInput& in);
std::string attention_backward_key(const AttentionInput& in);

/// The variant that stream.choices() has for `key`; otherwise the fastest of `variants`, which is kept there. `run`
/// gives one to the stream, and writes `results`, which do not depend on what they held. A variant that throws Error,
/// or whose results differ from those of the first, is refused; that and why is kept in stream.choices(), too.
AttentionVariant choose_variant(Stream& stream, const std::string& key, const std::vector<AttentionVariant>& variants,
                                const std::function<void(AttentionVariant)>& run, const std::vector<Tensor>& results);

/// For the user: a line for each refused variant, with the reason.
std::vector<std::string> refused_variants(const Choices& choices);

/// Describes the first difference of two results beyond rounding; empty if there is none. Rows of a head's `dim`
/// elements are compared one by one, so that a single wrong row is found. A row smaller than 1/50 of the rows' root
/// mean square counts as that large: the gradient of a query that sees one key is 0 but for rounding. NaN and
/// infinities must be at the same places.
std::string difference_of(const Tensor& expected, const Tensor& actual, std::int64_t dim);

}  // namespace mtl
