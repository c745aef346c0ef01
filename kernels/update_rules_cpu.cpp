// Passes over the arrays once, memory-bound: with AdamW, 28 bytes per parameter in fp32. Elements are
// computed in fp32. Narrower arrays are widened in L1, one stretch at a time.
#include <atomic>
#include <cmath>

#include "kernels/cpu.h"

#define MTL_SIMD_FILE "kernels/update_rules_cpu.cpp"
#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

constexpr std::size_t kStretch = 512;

/// A stretch of an operand as fp32: the operand's own memory if it is fp32, otherwise a widened copy, which close()
/// writes back.
class Stretch {
 public:
  HWY_INLINE Stretch(const Tensor& operand, std::int64_t first, std::size_t count)
      : tensor_(operand), begin_(first), size_(count) {}

  HWY_INLINE float* open() {
    if (tensor_.dtype() == DType::f32) return tensor_.data<float>() + begin_;
    with_float(tensor_.dtype(), [&]<class T>(T) HWY_ATTR {
      const T* from = tensor_.data<T>() + begin_;
      sweep(size_, [&](std::size_t i, auto lanes) HWY_ATTR { lanes.store(lanes.load(from + i), widened_ + i); });
    });
    return widened_;
  }
  HWY_INLINE void close() {
    if (tensor_.dtype() == DType::f32) return;
    with_float(tensor_.dtype(), [&]<class T>(T) HWY_ATTR {
      T* to = tensor_.data<T>() + begin_;
      sweep(size_, [&](std::size_t i, auto lanes) HWY_ATTR { lanes.store(lanes.load(widened_ + i), to + i); });
    });
  }

 private:
  Tensor tensor_;
  std::int64_t begin_;
  std::size_t size_;
  HWY_ALIGN float widened_[kStretch];
};

// Change a rule's states, and return what to subtract from the parameters p, whose gradients are multiplied by f.grad.

HWY_INLINE VecF32 change_of(const AdamWFactors& f, VecF32 p, VecF32 grad, VecF32& m, VecF32& v) {
  const VecF32 g = hn::Mul(grad, set(f.grad));
  m = hn::MulAdd(set(f.beta1), m, hn::Mul(set(f.new1), g));
  v = hn::MulAdd(set(f.beta2), v, hn::Mul(set(f.new2), hn::Mul(g, g)));
  const VecF32 denominator = hn::MulAdd(hn::Sqrt(v), set(f.root), set(f.eps));
  return hn::MulAdd(set(f.decay), p, hn::Div(hn::Mul(set(f.rate), m), denominator));
}

HWY_INLINE VecF32 change_of(const SgdFactors& f, VecF32 p, VecF32 grad, VecF32& m, VecF32&) {
  m = hn::MulAdd(set(f.momentum), m, hn::MulAdd(set(f.grad), grad, hn::Mul(set(f.decay), p)));
  return hn::Mul(set(f.rate), m);
}

HWY_INLINE VecF32 change_of(const DescentFactors& f, VecF32 p, VecF32 u, VecF32&, VecF32&) {
  return hn::MulAdd(set(f.decay), p, hn::Mul(set(f.rate), u));
}

/// Updates the states, and writes what to subtract from the parameters to `updates`.
template <class Factors>
void find_updates(const UpdateRange& range, const Factors& f, std::int64_t begin, std::size_t size, float* updates) {
  constexpr std::size_t kStates = Factors::kStates;
  Stretch param(range.param, begin, size), grads(range.grad, begin, size);
  Stretch first(kStates > 0 ? range.states[0] : range.grad, begin, size),
      second(kStates > 1 ? range.states[1] : range.grad, begin, size);
  const float *p = param.open(), *grad = grads.open();
  float *m_at = kStates > 0 ? first.open() : nullptr, *v_at = kStates > 1 ? second.open() : nullptr;
  sweep(size, [&](std::size_t i, auto lanes) HWY_ATTR {
    VecF32 m = set(0), v = set(0);
    if constexpr (kStates > 0) m = lanes.load(m_at + i);
    if constexpr (kStates > 1) v = lanes.load(v_at + i);
    const VecF32 change = change_of(f, lanes.load(p + i), lanes.load(grad + i), m, v);
    if constexpr (kStates > 0) lanes.store(m, m_at + i);
    if constexpr (kStates > 1) lanes.store(v, v_at + i);
    lanes.store(change, updates + i);
  });
  if constexpr (kStates > 0) first.close();
  if constexpr (kStates > 1) second.close();
}

void add_momentum(const UpdateRange& range, const MuonFactors& f, Range elements) {
  for (std::int64_t begin = elements.begin; begin < elements.end; begin += kStretch) {
    const std::size_t size = HWY_MIN(std::int64_t{kStretch}, elements.end - begin);
    Stretch grads(range.grad, begin, size), momentum(range.states[0], begin, size);
    float *grad = grads.open(), *m_at = momentum.open();
    sweep(size, [&](std::size_t i, auto lanes) HWY_ATTR {
      const VecF32 g = hn::Mul(lanes.load(grad + i), set(f.grad));
      const VecF32 m = hn::MulAdd(set(f.momentum), lanes.load(m_at + i), hn::Mul(set(f.fresh), g));
      lanes.store(m, m_at + i);
      lanes.store(hn::MulAdd(set(f.of_m), m, hn::Mul(set(f.own), g)), grad + i);
    });
    grads.close();
    momentum.close();
  }
}

/// Draws 16 random bits for each of the range's elements [begin, begin + size).
void draw_rounding(PhiloxKey key, std::uint64_t step, const ElementMap& map, std::int64_t begin, std::size_t size,
                   std::uint16_t* out) {
  for (std::size_t done = 0; done < size;) {
    const std::int64_t j = map.skipped + begin + static_cast<std::int64_t>(done), column = j % map.inner;
    const auto first = static_cast<std::uint64_t>(map.first + j / map.inner * map.pitch + column);
    const std::size_t n = HWY_MIN(size - done, static_cast<std::size_t>(map.inner - column)), skipped = first % 8;
    HWY_ALIGN std::uint32_t words[(kStretch / 8 + 1) * 4];
    philox_blocks(key, step, first / 8, (skipped + n + 7) / 8, words);
    std::memcpy(out + done, reinterpret_cast<const char*>(words) + 2 * skipped, 2 * n);
    done += n;
  }
}

/// Adds random bits below those that bf16 keeps, then truncates. NaN and infinity do not change.
HWY_INLINE VecF32 add_random(VecF32 v, const std::uint16_t* bits) {
  const auto raised = hn::Add(hn::BitCast(U32(), v), hn::PromoteTo(U32(), hn::LoadU(U16(), bits)));
  const auto cut = hn::BitCast(F32(), hn::And(raised, hn::Set(U32(), 0xFFFF0000u)));
  const auto is_finite = hn::Lt(hn::Abs(v), set(INFINITY));
  return hn::IfThenElse(is_finite, cut, v);
}

HWY_INLINE std::int64_t count(hn::Mask<F32> mask) { return static_cast<std::int64_t>(hn::CountTrue(F32(), mask)); }

/// p -= updates, rounded to P: to nearest, or by the bits in `random` if not null. Stores the old p in `before` if that
/// is not null.
template <class P>
void apply_updates(P* p, const float* updates, const std::uint16_t* random, std::size_t size, float* before,
                   cpu::UpdateCounts& counts) {
  sweep(size, [&](std::size_t i, auto lanes) HWY_ATTR {
    const VecF32 old = lanes.load(p + i), change = lanes.load(updates + i);
    VecF32 fresh = hn::Sub(old, change);
    if (random != nullptr) fresh = add_random(fresh, random + i);
    lanes.store(fresh, p + i);
    const auto is_update = hn::Ne(change, set(0));
    counts.nonzero += count(is_update);
    counts.lost += count(hn::And(is_update, hn::Eq(lanes.load(p + i), old)));
    if (before != nullptr) lanes.store(old, before + i);
  });
}

/// copy = p, rounded to C.
template <class P, class C>
void refresh_copy(C* copy, const P* p, const float* before, std::size_t size, cpu::UpdateCounts& counts) {
  sweep(size, [&](std::size_t i, auto lanes) HWY_ATTR {
    const VecF32 fresh = lanes.load(p + i), old = lanes.load(copy + i);
    lanes.store(fresh, copy + i);
    const auto is_change = hn::Ne(fresh, lanes.load(before + i));
    counts.lost_copies += count(hn::And(is_change, hn::Eq(lanes.load(copy + i), old)));
  });
}

template <class Factors>
cpu::UpdateCounts update_range(const UpdateRange& range, const Factors& f, std::uint64_t step, Range elements) {
  cpu::UpdateCounts counts;
  HWY_ALIGN float updates[kStretch], before[kStretch];
  HWY_ALIGN std::uint16_t random[kStretch + 64];  // room for a vector read past the end
  for (std::int64_t begin = elements.begin; begin < elements.end; begin += kStretch) {
    const std::size_t size = HWY_MIN(std::int64_t{kStretch}, elements.end - begin);
    find_updates(range, f, begin, size, updates);
    if (range.rounding) draw_rounding(*range.rounding, step, range.elements, begin, size, random);
    with_float(range.param.dtype(), [&]<class P>(P) HWY_ATTR {
      P* p = range.param.data<P>() + begin;
      const bool has_copy = range.copy.exists();
      apply_updates(p, updates, range.rounding ? random : nullptr, size, has_copy ? before : nullptr, counts);
      if (!has_copy) return;
      with_float(range.copy.dtype(),
                 [&]<class C>(C) HWY_ATTR { refresh_copy(range.copy.data<C>() + begin, p, before, size, counts); });
    });
  }
  return counts;
}

cpu::UpdateCounts update_elements(const UpdateRange& range, const cpu::RuleFactors& factors, std::uint64_t step,
                                  Range elements) {
  return std::visit([&](const auto& f) HWY_ATTR { return update_range(range, f, step, elements); }, factors);
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {
namespace {

/// Adds atomically. Deterministic, because integer sums do not depend on the order.
void add_count(std::int64_t& total, std::int64_t count) {
  std::atomic_ref(total).fetch_add(count, std::memory_order_relaxed);
}

template <class Factors>
void update(Stream& stream, const UpdateRange& range, Factors factors, StepState* state) {
  if (state->found_inf != 0) return;
  static_cast<UpdateFactors&>(factors) = state->factors[range.factors];
  factors.grad = state->grad_factor;
  if (!range.decays) factors.decay = 0;
  Blocks blocks{range.param.numel(), kSerialElements};
  parallel_for(stream.threads(), blocks.number(), range.param.numel(), [&](std::int64_t block) {
    const UpdateCounts counts =
        MTL_DISPATCH(update_elements)(range, factors, static_cast<std::uint64_t>(state->step), blocks[block]);
    add_count(state->nonzero_updates, counts.nonzero);
    add_count(state->lost_updates, counts.lost);
    add_count(state->lost_copies, counts.lost_copies);
  });
}

}  // namespace

void adamw_step(Stream& stream, const UpdateRange& range, const AdamWOptions& options, StepState* state) {
  update(stream, range, AdamWFactors(options), state);
}

void sgd_step(Stream& stream, const UpdateRange& range, double momentum, StepState* state) {
  update(stream, range, SgdFactors(momentum), state);
}

void descent_step(Stream& stream, const UpdateRange& range, StepState* state) {
  update(stream, range, DescentFactors(), state);
}

void muon_momentum(Stream& stream, const UpdateRange& range, const MuonOptions& options, StepState* state) {
  if (state->found_inf != 0) return;
  MuonFactors factors(options);
  factors.grad = state->grad_factor;
  const Blocks blocks{range.grad.numel(), kSerialElements};
  parallel_for(stream.threads(), blocks.number(), range.grad.numel(), [&](std::int64_t block) {
    MTL_DISPATCH(add_momentum)(range, factors, blocks[block]);
  });
}

}  // namespace mtl::cpu
#endif
