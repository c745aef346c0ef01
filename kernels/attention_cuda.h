// Attention on tensor cores, the fast way of attention_cuda*.cu.
#pragma once

#include "kernels/cuda.h"

namespace mtl::cuda {

/// Forward in bf16 or f16 for heads of 64, 80, 96 or 128 elements in rows that begin at multiples of 16 bytes. Returns
/// false for anything else, and computes nothing then.
bool attention_forward_tiles(Stream& stream, Tensor out, Tensor logsumexp, const AttentionInput& in);

}  // namespace mtl::cuda
