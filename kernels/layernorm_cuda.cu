// A warp for each row. Its passes over the row after the first find it in the first cache, so memory is read and
// written once:
//   forward   x and y                          2 N C elements
//   backward  x, dy and dx (twice to add)      3 or 4 N C elements; gradients of gamma and beta in the same pass
// Predicted: bound by memory.
#include "kernels/cuda.h"
#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/types.h"
#include "kernels/cuda/warp.h"

namespace mtl::cuda {

namespace {

constexpr unsigned kRowsInBlock = 4;

template <int n, class S, class T>
__global__ void normalize_rows(T* y, float* mean_out, float* rstd_out, const S* x, const T* gamma, const T* beta,
                               std::int64_t rows, int width, float eps) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kRowsInBlock + warp_in_block();
  if (row >= rows) return;
  x += row * width;
  y += row * width;
  float sum = 0;
  over_row<n>(width, [&](int i) {
    const Pack<n> in = load<n>(x + i);
    for (int j = 0; j < n; ++j) sum += in[j];
  });
  const float mean = warp_sum(sum) / static_cast<float>(width);
  float squares = 0;
  over_row<n>(width, [&](int i) {
    const Pack<n> in = load<n>(x + i);
    for (int j = 0; j < n; ++j) squares += (in[j] - mean) * (in[j] - mean);
  });
  const float rstd = 1 / sqrtf(warp_sum(squares) / static_cast<float>(width) + eps);
  over_row<n>(width, [&](int i) {
    const Pack<n> in = load<n>(x + i), weight = load<n>(gamma + i), bias = load<n>(beta + i);
    Pack<n> out;
    for (int j = 0; j < n; ++j) out[j] = (in[j] - mean) * rstd * weight[j] + bias[j];
    store(y + i, out);
  });
  if (lane() == 0) {
    mean_out[row] = mean;
    rstd_out[row] = rstd;
  }
}

/// Operands of backward; dx is null where it is not wanted, partials where neither dgamma nor dbeta is.
template <class S, class T>
struct Backward {
  S* dx;
  bool accumulate;
  float* partials;
  const T *dy, *gamma;
  const S* x;
  const float *mean, *rstd;
  std::int64_t rows;
  int width;
};

/// sums (2, C): adds a row's part of dgamma and dbeta to this warp's. A lane always has the same columns.
template <int n, class S, class T>
__device__ void add_parameter_gradients(float* sums, const Backward<S, T>& b, std::int64_t row) {
  const float mean = b.mean[row], rstd = b.rstd[row];
  over_row<n>(b.width, [&](int i) {
    const Pack<n> dy = load<n>(b.dy + row * b.width + i), x = load<n>(b.x + row * b.width + i);
    for (int j = 0; j < n; ++j) {
      sums[i + j] += dy[j] * (x[j] - mean) * rstd;
      sums[b.width + i + j] += dy[j];
    }
  });
}

template <int n, class S, class T>
__device__ void write_dx(const Backward<S, T>& b, std::int64_t row) {
  const S* x = b.x + row * b.width;
  const T* dy = b.dy + row * b.width;
  S* dx = b.dx + row * b.width;
  const float mean = b.mean[row], rstd = b.rstd[row], width = static_cast<float>(b.width);
  float sum_g = 0, sum_gx = 0;
  over_row<n>(b.width, [&](int i) {
    const Pack<n> in = load<n>(x + i), grad = load<n>(dy + i), weight = load<n>(b.gamma + i);
    for (int j = 0; j < n; ++j) {
      const float g = weight[j] * grad[j];
      sum_g += g;
      sum_gx += g * (in[j] - mean) * rstd;
    }
  });
  const float mean_g = warp_sum(sum_g) / width, mean_gx = warp_sum(sum_gx) / width;
  over_row<n>(b.width, [&](int i) {
    const Pack<n> in = load<n>(x + i), grad = load<n>(dy + i), weight = load<n>(b.gamma + i);
    // The skip connection's gradient is already there: the two meet here.
    Pack<n> out = b.accumulate ? load<n>(dx + i) : Pack<n>{};
    for (int j = 0; j < n; ++j) out[j] += rstd * (weight[j] * grad[j] - mean_g - (in[j] - mean) * rstd * mean_gx);
    store(dx + i, out);
  });
}

template <int n, class S, class T>
__global__ void backward_rows(const __grid_constant__ Backward<S, T> b) {
  const int sums = b.partials == nullptr ? 0 : 2 * b.width, warps = static_cast<int>(blockDim.x / kWarp);
  float* mine = shared_memory<float>() + static_cast<int>(warp_in_block()) * sums;
  for (int i = static_cast<int>(lane()); i < sums; i += kWarp) mine[i] = 0;
  __syncwarp();
  for (std::int64_t row = std::int64_t{blockIdx.x} * warps + warp_in_block(); row < b.rows;
       row += std::int64_t{gridDim.x} * warps) {
    if (sums > 0) add_parameter_gradients<n>(mine, b, row);  // before dx is written: it may be dy itself
    if (b.dx != nullptr) write_dx<n>(b, row);
  }
  if (sums > 0) write_block_sums(b.partials, shared_memory<float>(), sums);
}

}  // namespace

void layernorm_forward(Stream& stream, Tensor y, const LayerNormCache& cache, Tensor gamma, Tensor beta, float eps) {
  const std::int64_t rows = y.row_count(), width = y.size(-1);
  with_stream_types(cache.x.dtype(), y.dtype(), [&]<class S, class T>(S, T) {
    with_pack_size(width, {y, cache.x, gamma, beta}, [&]<int n>(std::integral_constant<int, n>) {
      launch(stream, normalize_rows<n, S, T>,
             {static_cast<unsigned>((rows + kRowsInBlock - 1) / kRowsInBlock), kRowsInBlock * kWarp}, y.data<T>(),
             cache.mean.data<float>(), cache.rstd.data<float>(), cache.x.data<S>(), gamma.data<T>(), beta.data<T>(),
             rows, static_cast<int>(width), eps);
    });
  });
}

void layernorm_backward(Stream& stream, Tensor work, const LayerNormGrads& grads, Tensor dy,
                        const LayerNormCache& cache, Tensor gamma) {
  const std::int64_t rows = dy.row_count(), width = dy.size(-1);
  const RowSumShape shape(rows, 2 * width);
  with_stream_types(cache.x.dtype(), dy.dtype(), [&]<class S, class T>(S, T) {
    const Tensor& dx = grads.dx.tensor;
    const Backward<S, T> operands{grads.dx.wanted() ? dx.data<S>() : nullptr,
                                  grads.dx.mode == GradMode::accumulate,
                                  static_cast<float*>(work.raw()),
                                  dy.data<T>(),
                                  gamma.data<T>(),
                                  cache.x.data<S>(),
                                  cache.mean.data<float>(),
                                  cache.rstd.data<float>(),
                                  rows,
                                  static_cast<int>(width)};
    with_pack_size(width, {dx, dy, cache.x, gamma}, [&]<int n>(std::integral_constant<int, n>) {
      launch(stream, backward_rows<n, S, T>,
             {shape.blocks, shape.warps * kWarp, work.exists() ? shape.shared_bytes : 0}, operands);
    });
  });
  if (grads.dgamma.wanted()) sum_blocks(stream, grads.dgamma, work, rows, 2 * width, 0);
  if (grads.dbeta.wanted()) sum_blocks(stream, grads.dbeta, work, rows, 2 * width, width);
}

std::size_t layernorm_backward_work(const Stream&, std::int64_t rows, std::int64_t width) {
  return row_sums_bytes(rows, 2 * width);
}

}  // namespace mtl::cuda
