// Attention's forward pass as a cuDNN graph.
#pragma once

#include "kernels/attention.h"
#include "kernels/cudnn_graph_cuda.h"

namespace mtl::cuda {

/// The sizes and strides to compile a plan for. attention_suits_cudnn() must accept the call.
struct CudnnAttentionShape {
  struct Strides {
    std::int64_t row, head;  // position and head strides, in elements
    auto operator<=>(const Strides&) const = default;
  };

  DType dtype;
  AttentionSizes sizes;
  Strides q, k, v;

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
