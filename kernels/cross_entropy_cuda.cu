// A block for each row of logits, bound by memory: statistics read the N V logits once, as a running maximum with its
// sum; backward reads them once and writes dlogits once. Accesses are of 16 bytes in rows of any width, but for a few
// columns at both ends.
#include "kernels/cuda.h"
#include "kernels/cuda/flat.h"
#include "kernels/cuda/warp.h"

namespace mtl::cuda {

namespace {

constexpr unsigned kThreads = 512;
constexpr std::size_t kShared = kWarp * sizeof(double);

/// max and sum of exp(z - max) over some columns; none: -inf and 0.
struct Running {
  float max = -INFINITY, sum = 0;

  /// The sum as it is with a maximum that is not smaller.
  __device__ float sum_below(float larger) const { return max == larger ? sum : sum * expf(max - larger); }
};

template <int n>
__device__ void add_pack(Running& running, const Pack<n>& z) {
  float max = running.max;
#pragma unroll
  for (int j = 0; j < n; ++j) max = fmaxf(max, z[j]);
  running.sum = running.sum_below(max);
  running.max = max;
#pragma unroll
  for (int j = 0; j < n; ++j) running.sum += z[j] == -INFINITY ? 0.0f : expf(z[j] - max);  // max may be -inf, too
}

/// body(column, std::integral_constant<int, m>()) for the columns [0, count) of row `row` that this thread takes: packs
/// of m = n elements, which begin at a multiple of n of the tensor (rows of `width` elements), and single ones, m = 1,
/// before the first pack and after the last.
template <int n, class Body>
__device__ void over_columns(std::int64_t row, std::int64_t width, std::int64_t count, const Body& body) {
  std::int64_t first = (n - row * width % n) % n;
  if (first > count) first = count;
  const std::int64_t end = first + (count - first) / n * n;
  for (std::int64_t i = threadIdx.x; i < first; i += blockDim.x) body(i, std::integral_constant<int, 1>());
  for (std::int64_t i = first + std::int64_t{threadIdx.x} * n; i < end; i += std::int64_t{blockDim.x} * n)
    body(i, std::integral_constant<int, n>());
  for (std::int64_t i = end + threadIdx.x; i < count; i += blockDim.x) body(i, std::integral_constant<int, 1>());
}

template <int n>
__global__ void find_stats(float* stats, const float* logits, const std::int32_t* labels, VocabSlice slice,
                           std::int64_t width) {
  const std::int64_t row = blockIdx.x;
  const float* z = logits + row * width;
  Running mine;
  over_columns<n>(row, width, slice.valid,
                  [&]<int m>(std::int64_t i, std::integral_constant<int, m>) { add_pack<m>(mine, load<m>(z + i)); });
  const float max =
      block_reduce(mine.max, -INFINITY, shared_memory<float>(), [](float a, float b) { return fmaxf(a, b); });
  const double sum = block_sum(double{mine.sum_below(max)}, shared_memory<double>());
  if (threadIdx.x != 0) return;
  const std::int64_t label = labels[row] - slice.begin;
  stats[3 * row] = max;
  stats[3 * row + 1] = static_cast<float>(sum);
  stats[3 * row + 2] = label >= 0 && label < slice.valid ? z[label] : 0.0f;
}

__global__ void combine_stats(float* stats, const float* parts, std::int64_t number, std::int64_t rows) {
  for (std::int64_t row = first_element(); row < rows; row += all_threads()) {
    const auto part = [&](std::int64_t p) { return parts + (p * rows + row) * 3; };
    float max = part(0)[0], target = 0;
    for (std::int64_t p = 1; p < number; ++p) max = fmaxf(max, part(p)[0]);
    double sum = 0;
    for (std::int64_t p = 0; p < number; ++p) {
      // A slice of padding alone has sum 0 and maximum -inf, so its factor is 0.
      sum += double{part(p)[1]} * exp(double{part(p)[0]} - double{max});
      target += part(p)[2];
    }
    stats[3 * row] = max;
    stats[3 * row + 1] = static_cast<float>(sum);
    stats[3 * row + 2] = target;
  }
}

__global__ void find_losses(float* losses, const float* stats, std::int64_t rows) {
  for (std::int64_t row = first_element(); row < rows; row += all_threads()) {
    const float* s = stats + 3 * row;
    losses[row] = static_cast<float>(log(double{s[1]}) + (double{s[0]} - double{s[2]}));
  }
}

template <int n, class T>
__global__ void find_gradients(T* dlogits, const float* logits, const float* stats, const std::int32_t* labels,
                               const float* weights, VocabSlice slice, const StepState* state, std::int64_t width) {
  const std::int64_t row = blockIdx.x, label = labels[row] - slice.begin;
  const float weight = (state == nullptr ? 1.0f : static_cast<float>(state->loss_scale)) * weights[row];
  const float max = stats[3 * row], factor = weight / stats[3 * row + 1];
  over_columns<n>(row, width, width, [&]<int m>(std::int64_t i, std::integral_constant<int, m>) {
    Pack<m> z = load<m>(logits + row * width + i);
#pragma unroll
    for (int j = 0; j < m; ++j) {
      const bool real = i + j < slice.valid;
      z[j] = real ? expf(z[j] - max) * factor : 0.0f;
      if (real && i + j == label) z[j] -= weight;
    }
    store(dlogits + row * width + i, z);
  });
}

/// One block: each thread adds losses a block apart, then the threads' sums are added.
__global__ void add_losses(double* sum, const float* losses, const float* weights, std::int64_t count,
                           bool accumulate) {
  double mine = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) mine += weights[i] != 0 ? double{losses[i]} : 0;
  mine = block_sum(mine, shared_memory<double>());
  if (threadIdx.x == 0) *sum = (accumulate ? *sum : 0) + mine;
}

}  // namespace

void cross_entropy_stats(Stream& stream, Tensor stats, Tensor logits, Tensor labels, VocabSlice slice) {
  const std::int64_t width = logits.size(1);
  with_pack_size(0, {logits}, [&]<int n>(std::integral_constant<int, n>) {
    launch(stream, find_stats<n>, {static_cast<unsigned>(logits.size(0)), kThreads, kShared}, stats.data<float>(),
           logits.data<float>(), labels.data<std::int32_t>(), slice, width);
  });
}

void cross_entropy_combine(Stream& stream, Tensor stats, Tensor parts) {
  launch(stream, combine_stats, flat_shape(stats.size(0)), stats.data<float>(), parts.data<float>(), parts.size(0),
         stats.size(0));
}

void cross_entropy_loss(Stream& stream, Tensor losses, Tensor stats) {
  launch(stream, find_losses, flat_shape(losses.numel()), losses.data<float>(), stats.data<float>(), losses.numel());
}

void cross_entropy_backward(Stream& stream, Tensor dlogits, Tensor logits, Tensor stats, Tensor labels, Tensor weights,
                            VocabSlice slice, const StepState* state) {
  const std::int64_t width = logits.size(1);
  with_float_type(dlogits.dtype(), [&]<class T>(T) {
    with_pack_size(0, {dlogits, logits}, [&]<int n>(std::integral_constant<int, n>) {
      launch(stream, find_gradients<n, T>, {static_cast<unsigned>(logits.size(0)), kThreads}, dlogits.data<T>(),
             logits.data<float>(), stats.data<float>(), labels.data<std::int32_t>(), weights.data<float>(), slice,
             state, width);
    });
  });
}

void sum_losses(Stream& stream, Tensor sum, Tensor losses, Tensor weights, GradMode mode) {
  launch(stream, add_losses, {1, kThreads, kShared}, sum.data<double>(), losses.data<float>(), weights.data<float>(),
         losses.numel(), mode == GradMode::accumulate);
}

}  // namespace mtl::cuda
