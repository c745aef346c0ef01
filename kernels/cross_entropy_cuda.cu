// loss = log(sum exp(z - max)) + max - z[label], dlogits = weight (softmax(z) - onehot(label)), or with a z-loss as in
// cross_entropy.h. One block per row of logits, memory-bound:
//   statistics                read the N V logits once, keeping a running maximum and the sum relative to it
//   backward                  reads them once and writes dlogits once
//   forward with backward     reads them once and writes dlogits once: a row that fits stays in shared memory (GPT-2's
//                             does on sm_90). Of others, the second pass hits in L2 as far as concurrent blocks have
//                             not evicted the row
// Accesses are 16 bytes wide in rows of any width, except for a few columns at both ends.
#include "kernels/cuda.h"
#include "kernels/cuda/flat.h"
#include "kernels/cuda/warp.h"

namespace mtl::cuda {

namespace {

/// Few blocks at a time, so that their rows stay in L2. The same for all kernels that add up a row: a thread's share of
/// it, and so the order of the sum, depends on this.
constexpr unsigned kThreads = 1024;
constexpr unsigned kGradientThreads = 512;
constexpr std::size_t kShared = kWarp * sizeof(double);

/// Returns what to subtract from z log2(e) for exp(z - max), as a power of 2; 0 for a maximum of no columns.
__device__ inline float base_of(float max) { return max == -INFINITY ? 0 : max * kLog2E; }
__device__ inline float exp_relative_to(float base, float z) { return exp2_approx(fmaf(z, kLog2E, -base)); }

/// The maximum of z, and the sum of exp_relative_to(base_of(max), z), over some columns; -inf and 0 for none.
struct Running {
  float max = -INFINITY, sum = 0;

  /// Returns the sum relative to `larger`, a maximum no smaller than max.
  __device__ float sum_relative_to(float larger) const { return sum * exp2_approx(base_of(max) - base_of(larger)); }
};

template <int n>
__device__ void add_pack(Running& running, const Pack<n>& z) {
  float max = running.max;
#pragma unroll
  for (int j = 0; j < n; ++j) max = fmaxf(max, z[j]);
  running.sum = running.sum_relative_to(max);
  running.max = max;
  const float base = base_of(max);
#pragma unroll
  for (int j = 0; j < n; ++j) running.sum += exp_relative_to(base, z[j]);
}

enum class Order { forward, backward };

/// Calls body(column, std::integral_constant<int, m>()) for this thread's share of columns [0, count) in row `row`:
/// with packs of m = n elements, which begin at multiples of n in the tensor (rows of `width` elements), and with
/// single elements, m = 1, before the first pack and after the last.
template <int n, Order order = Order::forward, class Body>
__device__ void over_columns(std::int64_t row, std::int64_t width, std::int64_t count, const Body& body) {
  // int has room for a row and two strides: labels are int, too, and 64 bits would take twice the registers.
  const int columns = static_cast<int>(count), unaligned = static_cast<int>((n - row * width % n) % n);
  const int first = unaligned < columns ? unaligned : columns, end = first + (columns - first) / n * n;
  const int threads = threads_in_block(), stride = threads * n;
  const auto ends = [&] {
#pragma unroll 1
    for (int i = thread_in_block(); i < first; i += threads) body(i, std::integral_constant<int, 1>());
#pragma unroll 1
    for (int i = end + thread_in_block(); i < columns; i += threads) body(i, std::integral_constant<int, 1>());
  };
  const int begin = first + thread_in_block() * n;
  if constexpr (order == Order::forward) {
    for (int i = begin; i < end; i += stride) body(i, std::integral_constant<int, n>());
    ends();
  } else {
    ends();
    for (int i = begin + (end - 1 - first) / stride * stride; i >= begin; i -= stride)
      if (i < end) body(i, std::integral_constant<int, n>());
  }
}

/// A row's maximum and its sum of exp(z - max), the same in all threads of the block.
struct RowStats {
  float max, sum;

  /// Returns what exp(z - max) is in exp_relative_to(base_of(max), z): not 1, because the base is rounded.
  __device__ float unit() const { return exp2_approx(fmaf(max, kLog2E, -base_of(max))); }
};

/// Unless `copy` is null, also copies the valid columns to it.
template <int n, class L>
__device__ RowStats stats_of_row(const L* z, std::int64_t row, std::int64_t width, std::int64_t valid,
                                 L* copy = nullptr) {
  Running running;
  over_columns<n>(row, width, valid, [&]<int m>(int i, std::integral_constant<int, m>) {
    const StoredPack<L, m> pack = load_stored<m>(z + i);
    if (copy != nullptr) store(copy + i, pack);
    add_pack<m>(running, pack.widened());
  });
  const float max =
      block_reduce(running.max, -INFINITY, shared_memory<float>(), [](float a, float b) { return fmaxf(a, b); });
  const double sum = block_sum(double{running.sum_relative_to(max)}, shared_memory<double>());
  return {max, max == -INFINITY ? 0 : static_cast<float>(sum / double{RowStats{max, 0}.unit()})};
}

template <class L>
__device__ float target_of(const L* z, std::int64_t label, std::int64_t valid) {
  return label >= 0 && label < valid ? to_float(z[label]) : 0.0f;
}

__device__ inline float loss_of(float max, float sum, float target) {
  return static_cast<float>(log(double{sum}) + (double{max} - double{target}));
}

template <int n, class L>
__global__ void __launch_bounds__(kThreads, 2)
    find_stats(float* stats, const L* logits, const std::int32_t* labels, VocabSlice slice, std::int64_t width) {
  const std::int64_t row = blockIdx.x;
  const L* z = logits + row * width;
  const RowStats found = stats_of_row<n>(z, row, width, slice.valid);
  if (threadIdx.x != 0) return;
  stats[3 * row] = found.max;
  stats[3 * row + 1] = found.sum;
  stats[3 * row + 2] = target_of(z, labels[row] - slice.begin, slice.valid);
}

__global__ void combine_stats(float* stats, const float* parts, std::int64_t number, std::int64_t rows) {
  for (std::int64_t row = first_element(); row < rows; row += all_threads()) {
    const auto part = [&](std::int64_t p) { return parts + (p * rows + row) * 3; };
    float max = part(0)[0], target = 0;
    for (std::int64_t p = 1; p < number; ++p) max = fmaxf(max, part(p)[0]);
    double sum = 0;
    for (std::int64_t p = 0; p < number; ++p) {
      // A slice that is all padding has sum 0 and maximum -inf, so its factor is 0.
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
    losses[row] = loss_of(s[0], s[1], s[2]);
  }
}

/// Operands of a z-loss: `losses` is null without one.
struct ZLosses {
  float coefficient;
  float* losses;

  explicit ZLosses(const ZLoss& z_loss)
      : coefficient(z_loss.coefficient), losses(coefficient == 0 ? nullptr : z_loss.losses.data<float>()) {}

  /// Writes a row's z-loss, and returns the factor of its softmax in the gradient.
  __device__ float scale_of(const RowStats& stats, std::int64_t row) const {
    if (losses == nullptr) return 1;
    const float log_sum_exp = logf(stats.sum) + stats.max;
    if (thread_in_block() == 0) losses[row] = coefficient * log_sum_exp * log_sum_exp;
    return fmaf(2 * coefficient, log_sum_exp, 1.0f);
  }
};

/// Operands for one row's gradient. `weight` includes the loss scale. `target` is z[label], which only thread 0 needs.
template <class L, class T>
struct GradientRow {
  T* dlogits;
  const L* z;
  RowStats stats;
  float weight, scale, target;
  std::int64_t row;
  int width, label, valid;
};

/// Called by the whole block.
template <int n, Order order, class L, class T>
__device__ void write_gradient(const GradientRow<L, T>& g) {
  // cross-entropy backward: dlogits = weight (scale softmax(z) - onehot(label)), 0 in padding
  const float base = base_of(g.stats.max), factor = g.weight * g.scale / (g.stats.sum * g.stats.unit());
  over_columns<n, order>(g.row, g.width, g.valid, [&]<int m>(int i, std::integral_constant<int, m>) {
    Pack<m> z = load<m>(g.z + i);
#pragma unroll
    for (int j = 0; j < m; ++j) z[j] = exp_relative_to(base, z[j]) * factor;
    store_streaming(g.dlogits + i, z);
  });
#pragma unroll 1
  for (int i = g.valid + thread_in_block(); i < g.width; i += threads_in_block()) g.dlogits[i] = T{};
  __syncthreads();  // the label's probability is written
  if (thread_in_block() == 0 && g.label >= 0 && g.label < g.valid)
    g.dlogits[g.label] = from_float<T>(fmaf(exp_relative_to(base, g.target), factor, -g.weight));
}

__device__ inline float scaled_weight(const StepState* state, float weight) {
  return (state == nullptr ? 1.0f : static_cast<float>(state->loss_scale)) * weight;
}

template <int n, class L, class T>
__global__ void find_gradients(T* dlogits, const L* logits, const float* stats, const std::int32_t* labels,
                               const float* weights, VocabSlice slice, ZLosses z_losses, const StepState* state,
                               std::int64_t width) {
  const std::int64_t row = blockIdx.x, begin = row * width;
  const RowStats row_stats{stats[3 * row], stats[3 * row + 1]};
  write_gradient<n, Order::forward>(
      GradientRow<L, T>{dlogits + begin, logits + begin, row_stats, scaled_weight(state, weights[row]),
                        z_losses.scale_of(row_stats, row), stats[3 * row + 2], row, static_cast<int>(width),
                        static_cast<int>(labels[row] - slice.begin), static_cast<int>(slice.valid)});
}

/// Returns how much shared memory find_losses_and_gradients() needs to keep a row of L. The row is aligned to 16 bytes
/// as in the tensor, so some elements' memory precedes it.
template <class L>
std::size_t shared_with_row(std::int64_t width) {
  return kShared + static_cast<std::size_t>(width) * sizeof(L) + kAccess - sizeof(L);
}

/// If it `keeps` the row in shared memory, reads logits once; of more than 28,000 fp32 or 56,000 bf16 columns, one
/// block fits at a time. Otherwise, the gradient pass begins at the end of the row, which was read last. dlogits can be
/// logits.
template <int n, bool keeps, class L, class T>
__global__ void __launch_bounds__(kThreads, keeps && sizeof(L) == sizeof(float) ? 1 : 2)
    find_losses_and_gradients(float* losses, T* dlogits, const L* logits, const std::int32_t* labels,
                              const float* weights, std::int64_t valid, ZLosses z_losses, const StepState* state,
                              std::int64_t width) {
  constexpr std::int64_t kInAccess = kAccess / sizeof(L);
  const std::int64_t row = blockIdx.x, begin = row * width;
  const int label = labels[row];
  float target = 0;
  if (!keeps && threadIdx.x == 0) target = target_of(logits + begin, label, valid);  // dlogits may be logits
  L* const kept = keeps ? shared_memory<L>() + kShared / sizeof(L) + begin % kInAccess : nullptr;
  const RowStats stats = stats_of_row<n>(logits + begin, row, width, valid, kept);
  if (keeps && threadIdx.x == 0) target = target_of(kept, label, valid);
  write_gradient<n, keeps ? Order::forward : Order::backward>(GradientRow<L, T>{
      dlogits + begin, keeps ? kept : logits + begin, stats, scaled_weight(state, weights[row]),
      z_losses.scale_of(stats, row), target, row, static_cast<int>(width), label, static_cast<int>(valid)});
  if (threadIdx.x == 0) losses[row] = loss_of(stats.max, stats.sum, target);
}

/// One block. Each thread adds every blockDim.x-th loss, then all threads' sums are added.
__global__ void add_losses(double* sum, const float* losses, const float* weights, std::int64_t count,
                           bool accumulate) {
  double total = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) total += weights[i] != 0 ? double{losses[i]} : 0;
  total = block_sum(total, shared_memory<double>());
  if (threadIdx.x == 0) *sum = (accumulate ? *sum : 0) + total;
}

/// Calls body(L(), T()) with the element types of logits and their gradient.
template <class Body>
void with_logits_types(DType logits, DType gradient, const Body& body) {
  if (logits == DType::bf16) return body(Bf16(), Bf16());
  with_float_type(gradient, [&](auto t) { body(float(), t); });
}

}  // namespace

void cross_entropy_stats(Stream& stream, Tensor stats, Tensor logits, Tensor labels, VocabSlice slice) {
  const std::int64_t width = logits.size(1);
  with_logits_types(logits.dtype(), DType::f32, [&]<class L>(L, auto) {
    with_pack_size(0, {logits}, [&]<int n>(std::integral_constant<int, n>) {
      launch(stream, find_stats<n, L>, {static_cast<unsigned>(logits.size(0)), kThreads, kShared}, stats.data<float>(),
             logits.data<L>(), labels.data<std::int32_t>(), slice, width);
    });
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
                            VocabSlice slice, const StepState* state, const ZLoss& z_loss) {
  const std::int64_t width = logits.size(1);
  with_logits_types(logits.dtype(), dlogits.dtype(), [&]<class L, class T>(L, T) {
    with_pack_size(0, {dlogits, logits}, [&]<int n>(std::integral_constant<int, n>) {
      launch(stream, find_gradients<n, L, T>, {static_cast<unsigned>(logits.size(0)), kGradientThreads},
             dlogits.data<T>(), logits.data<L>(), stats.data<float>(), labels.data<std::int32_t>(),
             weights.data<float>(), slice, ZLosses(z_loss), state, width);
    });
  });
}

void cross_entropy_forward_backward(Stream& stream, Tensor losses, Tensor dlogits, Tensor logits, Tensor labels,
                                    Tensor weights, std::int64_t valid, const StepState* state, const ZLoss& z_loss) {
  const std::int64_t width = logits.size(1);
  with_logits_types(logits.dtype(), dlogits.dtype(), [&]<class L, class T>(L, T) {
    const bool keeps = shared_with_row<L>(width) <= most_shared_bytes();
    const LaunchShape shape{static_cast<unsigned>(logits.size(0)), kThreads,
                            keeps ? shared_with_row<L>(width) : kShared};
    with_pack_size(0, {dlogits, logits}, [&]<int n>(std::integral_constant<int, n>) {
      launch(stream, keeps ? find_losses_and_gradients<n, true, L, T> : find_losses_and_gradients<n, false, L, T>,
             shape, losses.data<float>(), dlogits.data<T>(), logits.data<L>(), labels.data<std::int32_t>(),
             weights.data<float>(), valid, ZLosses(z_loss), state, width);
    });
  });
}

void sum_losses(Stream& stream, Tensor sum, Tensor losses, Tensor weights, GradMode mode) {
  launch(stream, add_losses, {1, kThreads, kShared}, sum.data<double>(), losses.data<float>(), weights.data<float>(),
         losses.numel(), mode == GradMode::accumulate);
}

}  // namespace mtl::cuda
