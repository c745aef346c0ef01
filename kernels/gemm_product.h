// A matmul's operands, for the implementations on all devices.
#pragma once

#include "kernels/gemm.h"

namespace mtl {

/// C (M, N) = op(A) (M, K) op(B) (K, N), or += if `accumulate`. M, N and K are positive, and all tensors have two axes.
struct Product {
  Tensor c;
  Operand a, b;
  bool accumulate;
  std::int64_t m() const { return c.size(0); }
  std::int64_t n() const { return c.size(1); }
  std::int64_t k() const { return a.tensor.size(a.transposed ? 0 : 1); }
};

/// Views a tensor as (rows, last axis).
inline Tensor as_matrix(const Tensor& tensor) { return tensor.view({tensor.row_count(), tensor.size(-1)}); }

inline Product product_of(const Tensor& c, const Operand& a, const Operand& b, GradMode mode) {
  return {.c = as_matrix(c),
          .a = {as_matrix(a.tensor), a.transposed},
          .b = {as_matrix(b.tensor), b.transposed},
          .accumulate = mode == GradMode::accumulate};
}

/// True if K is 0. The product is then zero.
inline bool is_empty_sum(const Operand& a) { return (a.transposed ? a.tensor.row_count() : a.tensor.size(-1)) == 0; }

}  // namespace mtl
