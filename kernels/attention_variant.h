// GPU attention variants, and how one is chosen for each shape: we measure them at the first call with the shape, and
// store the choice with the stream's choices (device/choices.h), which checkpoints keep. If several variants are
// allowed, one is used only if its results from that first call agree with those of the reference variant. The first
// call with a shape waits for the device, so it must not be captured as a graph.
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

/// Return the variants that can compute this call on a GPU with this compute capability (80, 90, ...). The first is the
/// reference.
std::vector<AttentionVariant> attention_forward_variants(const AttentionInput& in, const Tensor& out,
                                                         const Tensor& logsumexp, int capability);
std::vector<AttentionVariant> attention_backward_variants(const AttentionInput& in, const Qkv& grads,
                                                          const Tensor& dout, const Tensor& out, int capability);

/// Return the `variants` that the backend allows. `automatic` allows all, `flash` all except `cudnn`, `tiles` only the
/// first, and `unfused` only `simple`, which supports every call. In forward, `fused` allows only `cudnn` and throws
/// Error(usage) if `variants` lacks it. In backward, `fused` is the same as `flash`.
std::vector<AttentionVariant> allowed_forward_variants(AttentionBackend backend,
                                                       std::vector<AttentionVariant> variants);
std::vector<AttentionVariant> allowed_backward_variants(AttentionBackend backend,
                                                        std::vector<AttentionVariant> variants);

/// True if `tiles` supports q, k and v: 16 bits, 16-byte aligned, and a head size that is a multiple of 8, at most 128.
/// Of parts of sequences (SequencePart) with dropout, the chunks must be multiples of kDropoutTile.
bool attention_suits_tiles(const AttentionInput& in);

/// True if cuDNN can compute the call: sequences are whole and have at least two positions; `tiles` supports the
/// operands (16 bits, 16-byte aligned), and D is 64, 80, 96 or 128; and there is no dropout, no document boundary, and
/// no window shorter than the sequence.
bool attention_suits_cudnn(const AttentionInput& in);
/// How much workspace, in bytes, cuDNN engines may use. In version 9.19, they need 0 or 256 bytes.
inline constexpr std::int64_t kCudnnWorkspace = 4096;
/// Returns the size in bytes of the workspace and of a logsumexp that the caller does not want.
std::size_t cudnn_work_bytes(const AttentionInput& in, const Tensor& logsumexp);

/// How many keys a tile of dropout's random numbers has. Tensor cores compute whole tiles, which must not cross the
/// border between a part's chunks.
inline constexpr std::int64_t kDropoutTile = 32;

/// Returns a warning if heads have 16-bit elements but a size that only `simple` supports on a GPU, or if parts of
/// sequences have dropout and chunks of `dropout_chunk` positions (otherwise 0), which only `simple` supports; or "".
std::string scalar_attention_warning(DType dtype, std::int64_t dim, std::int64_t dropout_chunk = 0);

/// Return the key of a call in the choices of the stream. The key consists of the properties on which the time of the
/// call depends.
std::string attention_forward_key(const AttentionInput& in);
std::string attention_backward_key(const AttentionInput& in);

/// Returns stream.choices()' variant for `key` if `variants` contains it. Otherwise measures, returns the fastest of
/// `variants`, and stores it in stream.choices(); a single variant is neither measured nor compared. `run` launches a
/// variant on the stream, and must write all elements of `results` without reading them. A variant that throws Error,
/// that leaves an element unwritten, or whose results differ from the first one's, is refused, and stream.choices()
/// stores the reason. Throws Error if the first variant does or leaves an element unwritten.
AttentionVariant choose_variant(Stream& stream, const std::string& key, const std::vector<AttentionVariant>& variants,
                                const std::function<void(AttentionVariant)>& run, const std::vector<Tensor>& results);

/// Describes the first difference between two results (..., H, D) that exceeds rounding errors, or returns "". Rows of
/// D elements are compared separately, so that even a single wrong row is found. Differences are relative to the row's
/// norm, or to the root mean square over the rows of the same head if that is larger: if a query sees only one or two
/// keys, its gradient is a difference of nearly equal numbers, of which only the rounding errors of `out` may be left
/// (in bf16, up to 1.5 % of that root mean square was seen). Rows of other heads do not count: in a packed gradient of
/// q, k and v, dv is much larger than dq. NaN and infinities must be in the same places.
std::string difference_of(const Tensor& expected, const Tensor& actual);

}  // namespace mtl
