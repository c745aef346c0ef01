// C = op(A) op(B) or C += op(A) op(B) with cuBLASLt. We use cuBLASLt's fused epilogues, including the bias gradient, if
// measurements show that they are faster than a separate kernel after the matmul. These separate kernels are in this
// file and are memory-bound. An epilogue reads the products and writes C (and aux) once, 2 or 3 M N elements. The bias
// gradient reads dy once.
#include "kernels/cuda/activation.h"
#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/flat.h"
#include "kernels/cuda/warp.h"
#include "kernels/gemm_cuda.h"

namespace mtl::cuda {

namespace {

/// Operands for an epilogue over `count` elements in rows of `width`. The products have dtype P, the other operands T.
/// An absent operand is null.
template <class P, class T>
struct Finish {
  const P* products;
  T* c;
  bool accumulate;
  const T* bias;
  T* aux_out;       // forward: written, then read by the activation
  const T* aux_in;  // backward: read by the derivative
  Activation activation;
  std::int64_t count, width;
};

template <int n, class P, class T>
__global__ void finish_elements(const __grid_constant__ Finish<P, T> f) {
  for (std::int64_t i = first_element() * n; i < f.count; i += all_threads() * n) {
    Pack<n> x = load<n>(f.products + i);
    if (f.accumulate) {
      const Pack<n> c = load<n>(f.c + i);
      for (int j = 0; j < n; ++j) x[j] += c[j];
    }
    if (f.bias != nullptr) {
      const Pack<n> bias = load<n>(f.bias + i % f.width);
      for (int j = 0; j < n; ++j) x[j] += bias[j];
    }
    if (f.aux_out != nullptr) {
      store(f.aux_out + i, x);
      for (int j = 0; j < n; ++j) x[j] = to_float(from_float<T>(x[j]));  // as backward reads it
      const Gates<n> gates = gates_of(f.activation, x);
      for (int j = 0; j < n; ++j) x[j] *= gates.value[j];
    }
    if (f.aux_in != nullptr) {
      const Pack<n> aux = load<n>(f.aux_in + i);
      const Gates<n> gates = gates_of(f.activation, aux);
      for (int j = 0; j < n; ++j) x[j] *= gates.value[j] + aux[j] * gates.slope[j];
    }
    store(f.c + i, x);
  }
}

/// Applies the epilogue to the products, and writes the result to C, or adds it if `accumulate`.
void finish(Stream& stream, const Tensor& c, bool accumulate, const Epilogue& epilogue, const Tensor& products) {
  const std::int64_t width = c.size(-1);
  const bool forward = epilogue.act == Epilogue::Act::forward, backward = epilogue.act == Epilogue::Act::backward;
  const auto run = [&]<class P, class T>(P, T) {
    const auto data_if = [](const Tensor& tensor, bool used) { return used ? tensor.data<T>() : nullptr; };
    const Finish<P, T> operands{.products = products.data<P>(),
                                .c = c.data<T>(),
                                .accumulate = accumulate,
                                .bias = data_if(epilogue.bias, epilogue.bias.exists()),
                                .aux_out = data_if(epilogue.aux, forward),
                                .aux_in = data_if(epilogue.aux, backward),
                                .activation = epilogue.activation,
                                .count = c.numel(),
                                .width = width};
    with_pack_size(width, {products, c, epilogue.bias, epilogue.aux}, [&]<int n>(std::integral_constant<int, n>) {
      launch(stream, finish_elements<n, P, T>, flat_shape(c.numel() / n), operands);
    });
  };
  with_float_type(c.dtype(), [&]<class T>(T t) {
    if (products.dtype() == c.dtype())
      run(t, t);
    else
      run(float(), t);
  });
}

/// The grid over dy. Each block sums kColumns columns over every `row_blocks`-th group of kWarps rows.
struct BiasShape {
  static constexpr unsigned kWarps = 8;
  static constexpr std::int64_t kColumns = 8 * kWarp;  // per block, 8 per lane
  unsigned columns, row_blocks;
  BiasShape(std::int64_t rows, std::int64_t width) {
    constexpr std::int64_t kBlocks = 132 * 4, kRowsOfWarp = 8;
    columns = static_cast<unsigned>((width + kColumns - 1) / kColumns);
    const std::int64_t most = std::max<std::int64_t>(1, kBlocks / columns);
    row_blocks = static_cast<unsigned>(std::min(most, (rows + kWarps * kRowsOfWarp - 1) / (kWarps * kRowsOfWarp)));
  }
};

/// partials (row_blocks, width) = sums over rows. If `wide`, one access reads 8 neighboring columns.
template <bool wide, class T>
__global__ void sum_columns(float* partials, const T* dy, std::int64_t rows, std::int64_t width) {
  constexpr int n = 8;
  const std::int64_t column = std::int64_t{blockIdx.x} * BiasShape::kColumns + lane() * n;
  const int warp = warp_in_block();
  const int columns = width - column < n ? static_cast<int>(width - column) : n;
  Pack<n> sum{};
  for (std::int64_t row = std::int64_t{blockIdx.y} * BiasShape::kWarps + warp; row < rows;
       row += std::int64_t{gridDim.y} * BiasShape::kWarps) {
    const T* from = dy + row * width + column;
    if (wide && columns == n) {
      const Pack<n> more = load<n>(from);
      for (int j = 0; j < n; ++j) sum[j] += more[j];
    } else {
#pragma unroll
      for (int j = 0; j < n; ++j) sum[j] += j < columns ? to_float(from[j]) : 0;
    }
  }
  float* shared = shared_memory<float>();  // (warps, the block's columns)
  for (int j = 0; j < n; ++j) shared[thread_in_block() * n + j] = sum[j];
  __syncthreads();
  const std::int64_t own_column = std::int64_t{blockIdx.x} * BiasShape::kColumns + threadIdx.x;
  if (threadIdx.x >= BiasShape::kColumns || own_column >= width) return;
  float total = 0;
  for (unsigned w = 0; w < BiasShape::kWarps; ++w) total += shared[w * BiasShape::kColumns + threadIdx.x];
  partials[std::int64_t{blockIdx.y} * width + own_column] = total;
}

/// Writes `partials` (row_blocks, width) and returns row_blocks.
int sum_blocks_of_rows(Stream& stream, float* partials, const Tensor& dy) {
  const std::int64_t rows = dy.row_count(), width = dy.size(-1);
  const BiasShape shape(rows, width);
  const LaunchShape grid{dim3(shape.columns, shape.row_blocks), BiasShape::kWarps * kWarp,
                         BiasShape::kWarps * BiasShape::kColumns * sizeof(float)};
  with_float_type(dy.dtype(), [&]<class T>(T) {
    with_pack_size(width, {dy}, [&]<int n>(std::integral_constant<int, n>) {
      constexpr bool kWide = n > 1;
      launch(stream, sum_columns<kWide, T>, grid, partials, dy.data<T>(), rows, width);
    });
  });
  return static_cast<int>(shape.row_blocks);
}

void sum_bias_gradient(Stream& stream, const Tensor& work, const Grad& dbias, const Tensor& dy) {
  auto* partials = static_cast<float*>(work.raw());
  const int row_blocks = sum_blocks_of_rows(stream, partials, dy);
  sum_partials(stream, {dbias}, partials, row_blocks, static_cast<int>(dy.size(-1)));
}

std::size_t sum_bias_gradient_work(const Tensor& dy) {
  const BiasShape shape(dy.row_count(), dy.size(-1));
  return std::size_t{shape.row_blocks} * dy.size(-1) * sizeof(float);
}

/// True if cuBLASLt can write C. It cannot multiply bf16 into f16, or f32 into 16 bits.
bool is_direct(const Tensor& c, const Tensor& a) { return c.dtype() == a.dtype() || c.dtype() == DType::f32; }

/// Byte offsets in a matmul's scratch memory, after the cuBLASLt workspace:
/// - products: fp32 products, which are later rounded to C
/// - sums: a bias gradient, which is later added to dbias or rounded to dbias
/// - end: the total size
struct Areas {
  std::size_t products = kGemmWorkspace, sums, end;
  Areas(const Tensor& c, const Operand& a, const Grad& dbias) {
    const auto after = [](std::size_t begin, std::int64_t floats) {
      return (begin + floats * sizeof(float) + 255) / 256 * 256;
    };
    sums = is_direct(c, a.tensor) ? products : after(products, c.numel());
    end = dbias.wanted() ? after(sums, dbias.tensor.numel()) : sums;
  }
};

Tensor floats_at(const Tensor& work, std::size_t offset, const Shape& shape) {
  return {static_cast<std::byte*>(work.raw()) + offset, DType::f32, shape};
}

/// Computes the matmul, and the bias gradient with cuBLASLt's epilogue. The epilogue overwrites its output and writes
/// it in the dtype of C. If dbias is accumulated or has a different dtype, we therefore write the bias gradient to
/// `sums` first. Computes nothing and returns false if `sums` would round the gradient to the dtype of C, or if the
/// unfused computation is faster. (The product that writes dy could sum it, too, but cuBLASLt would round the sum to
/// the dtype of dy.)
bool multiply_with_bias_gradient(Stream& stream, const Tensor& work, const Product& product, const Grad& dbias,
                                 const Tensor& sums) {
  const bool direct = dbias.mode == GradMode::overwrite && dbias.tensor.dtype() == product.c.dtype();
  if (!direct && product.c.dtype() != DType::f32) return false;
  const FusedEpilogue fused{.dbias = direct ? dbias.tensor : sums, .launch_unfused = [&] {
                              sum_blocks_of_rows(stream, static_cast<float*>(work.raw()), product.a.tensor);
                            }};
  if (!multiply(stream, work.flat(0, kGemmWorkspace), product, fused)) return false;
  if (!direct) sum_partials(stream, {dbias}, sums.data<float>(), 1, static_cast<int>(product.m()));
  return true;
}

/// Computes a matmul without bias and activation, and the bias gradient if wanted.
void multiply_plain(Stream& stream, const Tensor& work, const Product& product, const Grad& dbias, const Tensor& sums) {
  if (dbias.wanted() && multiply_with_bias_gradient(stream, work, product, dbias, sums)) return;
  multiply(stream, work.flat(0, kGemmWorkspace), product, {});
  if (dbias.wanted()) sum_bias_gradient(stream, work, dbias, product.a.tensor);
}

/// Computes the matmul with bias and activation. Computes nothing and returns false if cuBLASLt does not support this
/// epilogue or if the unfused computation is faster.
bool multiply_with_epilogue(Stream& stream, const Tensor& work, const Product& product, const Epilogue& epilogue) {
  if (epilogue.act != Epilogue::Act::none && epilogue.activation != Activation::gelu_tanh) return false;
  return multiply(stream, work.flat(0, kGemmWorkspace), product,
                  {.bias = epilogue.bias, .act = epilogue.act, .aux = epilogue.aux, .launch_unfused = [&] {
                     finish(stream, product.c, false, epilogue, product.c);
                   }});
}

void multiply_and_finish(Stream& stream, const Tensor& work, const Product& product, const Epilogue& epilogue) {
  const Areas areas(product.c, product.a, epilogue.dbias);
  const bool direct = is_direct(product.c, product.a.tensor);
  const Tensor sums = epilogue.dbias.wanted() ? floats_at(work, areas.sums, {product.m()}) : Tensor();
  if (direct && epilogue.changes_c() && multiply_with_epilogue(stream, work, product, epilogue)) {
    if (epilogue.dbias.wanted()) sum_bias_gradient(stream, work, epilogue.dbias, product.a.tensor);
    return;
  }
  Product plain = product;
  if (!direct) {
    plain.c = floats_at(work, areas.products, product.c.shape());
    plain.accumulate = false;
  }
  multiply_plain(stream, work, plain, epilogue.dbias, sums);
  if (!direct || epilogue.changes_c()) finish(stream, product.c, product.accumulate, epilogue, plain.c);
}

}  // namespace

void gemm(Stream& stream, Tensor work, Tensor c, const Operand& a, const Operand& b, GradMode mode,
          const Epilogue& epilogue) {
  Epilogue of_matrix = epilogue;
  if (epilogue.aux.exists()) of_matrix.aux = as_matrix(epilogue.aux);
  if (c.numel() > 0 && !is_empty_sum(a)) {
    multiply_and_finish(stream, work, product_of(c, a, b, mode), of_matrix);
    return;
  }
  if (c.numel() > 0 && mode == GradMode::overwrite) {
    cuda::fill_zero(stream, c);
    if (epilogue.changes_c()) finish(stream, as_matrix(c), false, of_matrix, as_matrix(c));
  }
  if (epilogue.dbias.wanted()) sum_bias_gradient(stream, work, epilogue.dbias, as_matrix(a.tensor));
}

std::size_t gemm_work(const Stream&, Tensor c, const Operand& a, const Operand&, GradMode, const Epilogue& epilogue) {
  std::size_t bytes = 0;
  if (c.numel() > 0 && !is_empty_sum(a)) bytes = Areas(c, a, epilogue.dbias).end;
  if (epilogue.dbias.wanted()) bytes = std::max(bytes, sum_bias_gradient_work(as_matrix(a.tensor)));
  return bytes;
}

}  // namespace mtl::cuda
