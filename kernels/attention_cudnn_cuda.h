// Attention's forward pass as a cuDNN graph.
#pragma once

#include "kernels/attention.h"
#include "kernels/cudnn_graph_cuda.h"

namespace mtl::cuda {

/// What one run of a plan computes, and its strides. cuDNN's query heads have one stride, so several groups of several
/// heads take several runs: one per sequence, with the groups as the batch, or one per group, whichever are fewer.
struct CudnnAttentionShape {
  /// In elements. `run` is from one run's operand to the next one's.
  struct Strides {
    std::int64_t batch, head, row, run;
    auto operator<=>(const Strides&) const = default;
  };

  DType dtype;
  std::int64_t runs, batch, length, heads, key_heads, dim;
  Strides q, k, v, out, logsumexp;

  /// attention_suits_cudnn() must accept the call.
  explicit CudnnAttentionShape(const AttentionInput& in);
  auto operator<=>(const CudnnAttentionShape&) const = default;
};

/// A shape's graph, and the numbers of its operands.
struct CudnnAttentionGraph {
  CudnnGraph graph;
  std::int64_t q, k, v, out, logsumexp, scale, masked_score;

  CudnnAttentionGraph(const Cudnn& lib, const CudnnAttentionShape& shape);
};

}  // namespace mtl::cuda
