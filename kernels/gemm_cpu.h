// Matmul implementations for the cpu. gemm_cpu.cpp chooses one by a call's shapes and dtypes.
#pragma once

#include "kernels/cpu.h"
#include "kernels/gemm_product.h"

namespace mtl::cpu {

/// A part of C and its products, which are fp32 or have the dtype of C. The products for row r start at `values` + r *
/// stride, in elements.
struct Tile {
  Range rows, columns;
  const void* values;
  DType dtype;
  std::int64_t stride;
};

/// Applies the epilogue to the products, and writes the result to part of C, or adds it if `accumulate`. Rounds to the
/// dtype of C. tile.values may point into C or aux. If it points into aux, the values are not stored to aux again.
void finish_tile(const Tensor& c, bool accumulate, const Epilogue& epilogue, const Tile& tile);

/// Like finish_tile(), but for all of C. `products` must be C or aux itself.
void finish(Stream& stream, Tensor c, const Epilogue& epilogue, Tensor products);

/// dbias = sum over the rows of dy, or += if dbias accumulates. `work` holds partial sums.
void sum_bias_gradient(Stream& stream, Tensor work, const Grad& dbias, const Tensor& dy);
std::size_t sum_bias_gradient_work(const Tensor& dy);

/// Limits how many OpenMP threads oneDNN uses.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;

 private:
  int previous_;
};

/// Compute bf16 matmuls, including the bias, with a oneDNN primitive that the stream caches. `work` is the primitive's
/// scratchpad. has_matmul() returns true if the CPU has the instructions and oneDNN has the primitive. The other two
/// functions must be called only if has_matmul() is true.
bool has_matmul(const Stream& stream, const Product& product, const Tensor& bias);
void multiply_matmul(Stream& stream, Tensor work, const Product& product, const Tensor& bias);
std::size_t multiply_matmul_work(const Stream& stream, const Product& product, const Tensor& bias);

/// Computes matmuls with 16-bit operands or a 16-bit C, using oneDNN's fp32 GEMM. First widens tiles to fp32 in `work`.
/// Applies the epilogue.
void multiply_widened(Stream& stream, Tensor work, const Product& product, const Epilogue& epilogue);
std::size_t multiply_widened_work(const Stream& stream, const Product& product);

}  // namespace mtl::cpu
