// The implementations of the matrix product on the cpu. gemm_cpu.cpp chooses one by the shapes and dtypes of a call.
#pragma once

#include "kernels/cpu.h"
#include "kernels/gemm_product.h"

namespace mtl::cpu {

/// A part of C, and the products for this part, which are fp32 or have the dtype of C. Row r of the products begins r *
/// stride elements after `values`.
struct Tile {
  Range rows, columns;
  const void* values;
  DType dtype;
  std::int64_t stride;
};

/// Operands for n elements of one row, as passed by finish_tile(). An absent operand is null. All operands have the
/// dtype of C, but the products may be fp32 instead.
struct EpilogueRow {
  DType dtype, products_dtype;
  const void* products;
  void* c;
  bool accumulate;
  const void* bias;
  void* aux_out;       // forward: written, then read by the activation
  const void* aux_in;  // backward: read by its derivative
  std::size_t n;
};

/// Applies the epilogue to the products, and writes part of C = or += the result, rounded to the dtype of C.
/// tile.values may be in C or in aux itself. If tile.values is in aux, the values are not stored to aux again.
void finish_tile(const Tensor& c, bool accumulate, const Epilogue& epilogue, const Tile& tile);

/// Like finish_tile(), for all of C. `products` is C or aux itself.
void finish(Stream& stream, Tensor c, const Epilogue& epilogue, Tensor products);

/// dbias = or += the sum over the rows of dy. `work` holds partial sums.
void sum_bias_gradient(Stream& stream, Tensor work, const Grad& dbias, const Tensor& dy);
std::size_t sum_bias_gradient_work(const Tensor& dy);

/// Limits the threads that oneDNN takes from OpenMP.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;

 private:
  int previous_;
};

/// Compute bf16 products, with the bias, using a oneDNN primitive that the stream caches. `work` is the scratchpad of
/// the primitive. has_matmul() returns true if the CPU has the instructions and oneDNN has the primitive; the other two
/// functions require that has_matmul() is true.
bool has_matmul(const Stream& stream, const Product& product, const Tensor& bias);
void multiply_matmul(Stream& stream, Tensor work, const Product& product, const Tensor& bias);
std::size_t multiply_matmul_work(const Stream& stream, const Product& product, const Tensor& bias);

/// Computes products with 16-bit operands or a 16-bit C, using oneDNN's fp32 GEMM. Tiles are first widened to fp32 in
/// `work`. Applies the epilogue.
void multiply_widened(Stream& stream, Tensor work, const Product& product, const Epilogue& epilogue);
std::size_t multiply_widened_work(const Stream& stream, const Product& product);

}  // namespace mtl::cpu
