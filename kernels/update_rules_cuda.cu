// Passes over the arrays once, memory-bound: reads each array once, and writes each except the gradient once. With bf16
// weights and fp32 main weights, moments and gradients, AdamW moves 32 bytes per parameter: 1.2 ms for 124 million
// parameters at 3.35 TB/s (predicted). Accesses are 16 bytes wide if all operands are aligned to 16 bytes, as
// ParamMemory's ranges are.
#include "kernels/cuda.h"
#include "kernels/cuda/any_array.h"
#include "kernels/cuda/philox.h"
#include "kernels/cuda/warp.h"

namespace mtl::cuda {

namespace {

/// Operands for one launch, which updates elements [begin, begin + count) in the range.
struct Update {
  AnyArray param, grad, first, second, copy;  // `first` and `second` are the states, if the rule has them
  int factors;
  bool decays, rounds_stochastically;
  PhiloxKey key;
  ElementMap elements;
  StepState* state;
  std::int64_t begin, count;
};

/// The random bits for consecutive elements in the range, starting with `first`. One Philox call serves 8 elements that
/// are consecutive in the entire tensor. Divides only once for all elements, because 64-bit divisions would take longer
/// than the memory accesses.
class RoundingBits {
 public:
  __device__ RoundingBits(const Update& u, std::int64_t first) : u_(u), step_(u.state->step) {
    const std::int64_t j = u.elements.skipped + first, row = j / u.elements.inner;
    column_ = j - row * u.elements.inner;
    number_ = u.elements.first + row * u.elements.pitch + column_;
    draw();
  }
  /// Returns the next element's bits.
  __device__ std::uint32_t next() {
    if (column_ == u_.elements.inner) {
      column_ = 0;
      number_ += u_.elements.pitch - u_.elements.inner;
    }
    if (number_ / 8 != block_) draw();
    ++column_;
    return philox_bits(words_, static_cast<std::uint64_t>(number_++));
  }

 private:
  __device__ void draw() {
    block_ = number_ / 8;
    words_ = philox(u_.key, static_cast<std::uint64_t>(step_), static_cast<std::uint64_t>(block_));
  }

  const Update& u_;
  std::int64_t step_, column_, number_, block_;
  std::array<std::uint32_t, 4> words_;
};

/// Adds random bits below those that bf16 keeps, then truncates. NaN and infinity do not change.
__device__ inline float round_by(std::uint32_t bits, float value) {
  if (!(fabsf(value) < INFINITY)) return value;
  return from_bits((to_bits(value) + bits) & 0xFFFF0000u);
}

/// Rounds `values`, the new params for the range's elements from `first`.
template <int n>
__device__ void round_stochastically(const Update& u, std::int64_t first, Pack<n>& values) {
  RoundingBits bits(u, first);
#pragma unroll
  for (int j = 0; j < n; ++j) values[j] = round_by(bits.next(), values[j]);
}

struct Counts {
  int nonzero = 0, lost = 0, lost_copies = 0;
};

// Change a rule's states, and return what to subtract from the parameter p, whose gradient is multiplied by f.grad.
// Which products nvcc fuses with an addition would depend on n below. These are the CPU's.

__device__ inline float change_of(const AdamWFactors& f, float p, float grad, float& m, float& v) {
  const float g = grad * f.grad;
  m = fmaf(f.beta1, m, f.new1 * g);
  v = fmaf(f.beta2, v, f.new2 * (g * g));
  return fmaf(f.decay, p, f.rate * m / fmaf(sqrtf(v), f.root, f.eps));
}

__device__ inline float change_of(const SgdFactors& f, float p, float grad, float& m, float&) {
  m = fmaf(f.momentum, m, fmaf(f.grad, grad, f.decay * p));
  return f.rate * m;
}

__device__ inline float change_of(const DescentFactors& f, float p, float u, float&, float&) {
  return fmaf(f.decay, p, f.rate * u);
}

template <int n, class Factors>
__device__ void update_pack(const Update& u, const Factors& f, std::int64_t i, Counts& counts) {
  const Pack<n> grad = load<n>(u.grad, i);
  Pack<n> m = {}, v = {}, p = load<n>(u.param, i), old = p;
  if constexpr (Factors::kStates > 0) m = load<n>(u.first, i);
  if constexpr (Factors::kStates > 1) v = load<n>(u.second, i);
  Pack<n> changes;
#pragma unroll
  for (int j = 0; j < n; ++j) {
    changes[j] = change_of(f, p[j], grad[j], m[j], v[j]);
    p[j] -= changes[j];
  }
  if (u.rounds_stochastically) round_stochastically(u, i, p);
#pragma unroll
  for (int j = 0; j < n; ++j) {
    p[j] = rounded(u.param.dtype, p[j]);
    counts.nonzero += changes[j] != 0;
    counts.lost += changes[j] != 0 && p[j] == old[j];
  }
  if constexpr (Factors::kStates > 0) store(u.first, i, m);
  if constexpr (Factors::kStates > 1) store(u.second, i, v);
  store(u.param, i, p);
  if (u.copy.data == nullptr) return;
  const Pack<n> copy = load<n>(u.copy, i);
#pragma unroll
  for (int j = 0; j < n; ++j) counts.lost_copies += p[j] != old[j] && rounded(u.copy.dtype, p[j]) == copy[j];
  store(u.copy, i, p);
}

template <int n, class Factors>
__global__ void update_elements(const __grid_constant__ Update u, Factors f) {
  if (u.state->found_inf != 0) return;
  static_cast<UpdateFactors&>(f) = u.state->factors[u.factors];
  f.grad = u.state->grad_factor;
  if (!u.decays) f.decay = 0;
  Counts counts;
  const std::int64_t end = u.begin + u.count;
  for (std::int64_t i = u.begin + first_element() * n; i < end; i += all_threads() * n) update_pack<n>(u, f, i, counts);
  auto* sums = shared_memory<int>();
  const int nonzero = block_sum(counts.nonzero, sums), lost = block_sum(counts.lost, sums),
            lost_copies = block_sum(counts.lost_copies, sums);
  if (threadIdx.x != 0) return;
  add_count(&u.state->nonzero_updates, nonzero);  // integer sums do not depend on the order
  add_count(&u.state->lost_updates, lost);
  add_count(&u.state->lost_copies, lost_copies);
}

template <int n, class Factors>
void launch_update(Stream& stream, Update update, const Factors& factors, std::int64_t begin, std::int64_t count) {
  update.begin = begin;
  update.count = count;
  LaunchShape shape = flat_shape(count / n);
  shape.shared_bytes = kWarp * sizeof(int);
  launch(stream, update_elements<n, Factors>, shape, update, factors);
}

__global__ void add_momentum(AnyArray grad, AnyArray momentum, MuonFactors f, const StepState* state,
                             std::int64_t count) {
  if (state->found_inf != 0) return;
  for (std::int64_t i = first_element(); i < count; i += all_threads()) {
    Pack<1> u = load<1>(grad, i), m = load<1>(momentum, i);
    const float g = u[0] * state->grad_factor;
    m[0] = fmaf(f.momentum, m[0], f.fresh * g);
    u[0] = fmaf(f.of_m, m[0], f.own * g);
    store(momentum, i, m);
    store(grad, i, u);
  }
}

template <class Factors>
void update_range(Stream& stream, const UpdateRange& range, const Factors& factors, StepState* state) {
  const std::int64_t count = range.param.numel();
  const Tensor first = Factors::kStates > 0 ? range.states[0] : Tensor(),
               second = Factors::kStates > 1 ? range.states[1] : Tensor();
  const Update update{AnyArray(range.param),
                      AnyArray(range.grad),
                      AnyArray(first),
                      AnyArray(second),
                      AnyArray(range.copy),
                      range.factors,
                      range.decays,
                      range.rounding.has_value(),
                      range.rounding.value_or(PhiloxKey{}),
                      range.elements,
                      state,
                      0,
                      0};
  constexpr std::int64_t kWide = 8;
  std::int64_t wide = 0;  // elements in packs of 8; the rest are done singly
  with_pack_size(0, {range.param, range.grad, first, second, range.copy},
                 [&]<int n>(std::integral_constant<int, n>) { wide = n == kWide ? count / kWide * kWide : 0; });
  launch_update<kWide>(stream, update, factors, 0, wide);
  launch_update<1>(stream, update, factors, wide, count - wide);
}

}  // namespace

void adamw_step(Stream& stream, const UpdateRange& range, const AdamWOptions& options, StepState* state) {
  update_range(stream, range, AdamWFactors(options), state);
}

void sgd_step(Stream& stream, const UpdateRange& range, double momentum, StepState* state) {
  update_range(stream, range, SgdFactors(momentum), state);
}

void descent_step(Stream& stream, const UpdateRange& range, StepState* state) {
  update_range(stream, range, DescentFactors(), state);
}

void muon_momentum(Stream& stream, const UpdateRange& range, const MuonOptions& options, StepState* state) {
  const std::int64_t count = range.grad.numel();
  launch(stream, add_momentum, flat_shape(count), AnyArray(range.grad), AnyArray(range.states[0]), MuonFactors(options),
         state, count);
}

}  // namespace mtl::cuda
