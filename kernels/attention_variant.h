// The variants of attention on a GPU, and the choice among them for a shape: measured at its first call and stored in
// the stream's choices (device/choices.h), which checkpoints keep. A variant is used only if its results on that first
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
  cudnn,   // cuDNN, forward only: attention_cudnn_cuda.cpp
};

std::string name_of(AttentionVariant variant);

/// Return the variants that can compute this call on a GPU of this compute capability (80, 90, ...); the first is the
/// reference.
std::vector<AttentionVariant> attention_forward_variants(const AttentionInput& in, const Tensor& out,
                                                         const Tensor& logsumexp, int capability);
std::vector<AttentionVariant> attention_backward_variants(const AttentionInput& in, const Qkv& grads,
                                                          const Tensor& dout, const Tensor& out, int capability);

/// Return those of `variants` that the backend allows: all with `automatic`, all but `cudnn` with `flash`, and
/// {simple}, which computes every call, with `unfused`. With `fused`, forward allows {cudnn}, and throws Error(usage)
/// if `variants` lacks it; backward allows the same as with `flash`.
std::vector<AttentionVariant> allowed_forward_variants(AttentionBackend backend,
                                                       std::vector<AttentionVariant> variants);
std::vector<AttentionVariant> allowed_backward_variants(AttentionBackend backend,
                                                        std::vector<AttentionVariant> variants);

/// True for whole sequences of two or more positions and operands that the tiles support (16 bits, D 64, 80, 96 or
/// 128), with one head per group or a single group, so that query heads have one stride, and without dropout, document
/// boundaries or a window shorter than the sequence.
bool attention_suits_cudnn(const AttentionInput& in);
/// Bytes of workspace that cuDNN's engines may use; version 9.19's need 0 or 256.
inline constexpr std::int64_t kCudnnWorkspace = 4096;
/// Returns the bytes of the workspace, and of a logsumexp that the caller does not want.
std::size_t cudnn_work_bytes(const AttentionInput& in, const Tensor& logsumexp);

/// True for decoding: one query per head, without logsumexp, documents and dropout. The query's keys are then split
/// into pieces.
bool attention_decodes(const AttentionInput& in, const Tensor& logsumexp);

/// Return the key of a call in the stream's choices: the properties that its time depends on.
std::string attention_forward_key(const AttentionInput& in);
std::string attention_backward_key(const AttentionInput& in);

/// Returns the variant that stream.choices() has for `key`; otherwise the fastest of `variants`, and stores it there.
/// `run` launches a variant on the stream; it overwrites `results` without reading them. A variant that throws Error,
/// or whose results differ from those of the first, is refused; stream.choices() stores the reason, too. Rethrows the
/// first variant's Error.
AttentionVariant choose_variant(Stream& stream, const std::string& key, const std::vector<AttentionVariant>& variants,
                                const std::function<void(AttentionVariant)>& run, const std::vector<Tensor>& results);

/// Returns a line for each refused variant, with the reason, to show to the user.
std::vector<std::string> refused_variants(const Choices& choices);

/// Describes the first difference between two results that exceeds rounding; empty if there is none. Rows of a head's
/// `dim` elements are compared separately, so that a single wrong row is found. A row's norm counts as at least 1/50 of
/// the rows' root mean square: the gradient of a query that sees one key is 0 except for rounding. NaN and infinities
/// must be at the same places.
std::string difference_of(const Tensor& expected, const Tensor& actual, std::int64_t dim);

}  // namespace mtl
