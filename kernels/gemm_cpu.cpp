// Chooses how to compute a matmul on the cpu:
// - fp32 uses oneDNN's GEMM.
// - bf16 uses oneDNN's matmul if the CPU has AVX-512 BF16 or AMX (gemm_cpu_matmul.cpp).
// - Other matmuls with 16-bit tensors are widened in tiles (gemm_cpu_widened.cpp).
// - If A has only a few rows and B is transposed (decoding), this file computes the matmul, in all dtypes. Reading B is
//   then the bottleneck, and oneDNN would copy B first.
#include <dnnl.h>
#include <omp.h>

#include "kernels/gemm_cpu.h"

#define MTL_SIMD_FILE "kernels/gemm_cpu.cpp"
#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

/// sums[0..3] = a0 . w0, a0 . w1, a1 . w0, a1 . w1, over k elements.
template <class T>
HWY_INLINE void dot_tile(const T* a0, const T* a1, const T* w0, const T* w1, std::size_t k, float* sums) {
  VecF32 s00 = set(0), s01 = s00, s10 = s00, s11 = s00;
  sweep(k, [&](std::size_t i, auto lanes) HWY_ATTR {
    const VecF32 x0 = lanes.load(a0 + i), x1 = lanes.load(a1 + i), y0 = lanes.load(w0 + i), y1 = lanes.load(w1 + i);
    s00 = hn::MulAdd(x0, y0, s00);
    s01 = hn::MulAdd(x0, y1, s01);
    s10 = hn::MulAdd(x1, y0, s10);
    s11 = hn::MulAdd(x1, y1, s11);
  });
  int n = 0;
  for (const VecF32 s : {s00, s01, s10, s11}) sums[n++] = hn::GetLane(hn::SumOfLanes(F32(), s));
}

/// Computes `columns` of x W^T for a single row x. Processes four columns at a time, and repeats the last column if
/// fewer than four remain.
template <class T>
void multiply_one_row(const Tensor& x, const Tensor& w, Range columns, float* sums) {
  const std::int64_t k = x.size(1);
  const T *left = x.data<T>(), *right = w.data<T>();
  for (std::int64_t j = columns.begin; j < columns.end; j += 4) {
    const T* row[4];
    for (int q = 0; q < 4; ++q) row[q] = right + std::min(j + q, columns.end - 1) * k;
    VecF32 s0 = set(0), s1 = s0, s2 = s0, s3 = s0;
    sweep(k, [&](std::size_t i, auto lanes) HWY_ATTR {
      const VecF32 x_i = lanes.load(left + i);
      s0 = hn::MulAdd(x_i, lanes.load(row[0] + i), s0);
      s1 = hn::MulAdd(x_i, lanes.load(row[1] + i), s1);
      s2 = hn::MulAdd(x_i, lanes.load(row[2] + i), s2);
      s3 = hn::MulAdd(x_i, lanes.load(row[3] + i), s3);
    });
    int q = 0;
    for (const VecF32 s : {s0, s1, s2, s3}) {
      if (j + q < columns.end) sums[j - columns.begin + q] = hn::GetLane(hn::SumOfLanes(F32(), s));
      ++q;
    }
  }
}

/// Like multiply_one_row(), but for a few rows, whose sums are `stride` apart. Two rows of W stay in L1 while we
/// multiply all rows of x by them. If the row or column count is odd, we compute the last one twice.
void multiply_few_rows(const Tensor& x, const Tensor& w, Range columns, float* sums, std::int64_t stride) {
  with_float(x.dtype(), [&]<class T>(T) HWY_ATTR {
    const std::int64_t rows = x.size(0), k = x.size(1);
    if (rows == 1) return multiply_one_row<T>(x, w, columns, sums);
    const T *left = x.data<T>(), *right = w.data<T>();
    for (std::int64_t j = columns.begin; j < columns.end; j += 2) {
      const std::int64_t next = std::min(j + 1, columns.end - 1);
      for (std::int64_t i = 0; i < rows; i += 2) {
        const std::int64_t below = std::min(i + 1, rows - 1);
        float tile[4];
        dot_tile(left + i * k, left + below * k, right + j * k, right + next * k, k, tile);
        float *upper = sums + i * stride - columns.begin, *lower = sums + below * stride - columns.begin;
        upper[j] = tile[0];
        upper[next] = tile[1];
        lower[j] = tile[2];
        lower[next] = tile[3];
      }
    }
  });
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {
namespace {

constexpr std::int64_t kFewRows = 8, kFewColumns = 32;

enum class Method { few_rows, fp32, matmul, widened };

Method method_of(const Stream& stream, const Product& product, const Epilogue& epilogue) {
  if (product.m() <= kFewRows && !product.a.transposed && product.b.transposed) return Method::few_rows;
  const bool all_fp32 = product.a.tensor.dtype() == DType::f32 && product.c.dtype() == DType::f32;
  if (all_fp32) return Method::fp32;
  return has_matmul(stream, product, epilogue.bias) ? Method::matmul : Method::widened;
}

void multiply_few(Stream& stream, const Product& product, const Epilogue& epilogue) {
  const Blocks columns{product.n(), kFewColumns};
  const Tensor &x = product.a.tensor, &w = product.b.tensor;
  parallel_for(stream.threads(), columns.number(), w.numel(), [&](std::int64_t block) {
    float sums[kFewRows * kFewColumns];
    MTL_DISPATCH(multiply_few_rows)(x, w, columns[block], sums, kFewColumns);
    finish_tile(product.c, product.accumulate, epilogue,
                {.rows = {0, product.m()},
                 .columns = columns[block],
                 .values = sums,
                 .dtype = DType::f32,
                 .stride = kFewColumns});
  });
}

void multiply_fp32(Stream& stream, const Product& product) {
  const auto& [c, a, b, accumulate] = product;
  ThreadLimit limit(stream.threads());
  const dnnl_status_t status =
      dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', product.m(), product.n(), product.k(), 1.0f,
                 a.tensor.data<float>(), a.tensor.size(1), b.tensor.data<float>(), b.tensor.size(1),
                 accumulate ? 1.0f : 0.0f, c.data<float>(), product.n());
  require(status == dnnl_success, "dnnl_sgemm failed with status ", static_cast<int>(status));
}

/// The primitive writes the activation's input: to aux in forward, otherwise to C.
void multiply_bf16(Stream& stream, Tensor work, Product product, const Epilogue& epilogue) {
  const Tensor c = product.c;
  if (epilogue.act == Epilogue::Act::forward) product.c = as_matrix(epilogue.aux);
  multiply_matmul(stream, work, product, epilogue.bias);
  if (epilogue.act == Epilogue::Act::none) return;
  Epilogue without_bias = epilogue;
  without_bias.bias = {};
  finish(stream, c, without_bias, product.c);
}

void multiply(Stream& stream, Tensor work, const Product& product, const Epilogue& epilogue) {
  switch (method_of(stream, product, epilogue)) {
    case Method::few_rows:
      return multiply_few(stream, product, epilogue);
    case Method::fp32:
      multiply_fp32(stream, product);
      if (epilogue.changes_c()) finish(stream, product.c, epilogue, product.c);
      return;
    case Method::matmul:
      return multiply_bf16(stream, work, product, epilogue);
    case Method::widened:
      return multiply_widened(stream, work, product, epilogue);
  }
}

std::size_t multiply_work(const Stream& stream, const Product& product, const Epilogue& epilogue) {
  const Method method = method_of(stream, product, epilogue);
  if (method == Method::matmul) return multiply_matmul_work(stream, product, epilogue.bias);
  return method == Method::widened ? multiply_widened_work(stream, product) : 0;
}
}  // namespace

ThreadLimit::ThreadLimit(int threads) : previous_(omp_get_max_threads()) { omp_set_num_threads(threads); }
ThreadLimit::~ThreadLimit() { omp_set_num_threads(previous_); }

void gemm(Stream& stream, Tensor work, Tensor c, const Operand& a, const Operand& b, GradMode mode,
          const Epilogue& epilogue) {
  if (c.numel() > 0 && !is_empty_sum(a)) {
    multiply(stream, work, product_of(c, a, b, mode), epilogue);
  } else if (mode == GradMode::overwrite) {
    cpu::fill_zero(stream, c);
    if (epilogue.changes_c()) finish(stream, c, epilogue, c);
  }
  if (epilogue.dbias.wanted()) sum_bias_gradient(stream, work, epilogue.dbias, a.tensor);
}

std::size_t gemm_work(const Stream& stream, Tensor c, const Operand& a, const Operand& b, GradMode mode,
                      const Epilogue& epilogue) {
  std::size_t bytes = 0;
  if (c.numel() > 0 && !is_empty_sum(a)) bytes = multiply_work(stream, product_of(c, a, b, mode), epilogue);
  if (epilogue.dbias.wanted()) bytes = std::max(bytes, sum_bias_gradient_work(a.tensor));
  return bytes;
}

}  // namespace mtl::cpu
#endif
