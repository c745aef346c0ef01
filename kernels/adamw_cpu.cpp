// One pass over the four arrays, bound by memory: 28 bytes a parameter. Factors of the step in fp64, elements in fp32.
#include <cmath>

#include "kernels/cpu.h"

#define MTL_SIMD_FILE "kernels/adamw_cpu.cpp"
#include "kernels/simd.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {

void adamw_range(const AdamWRange& range, const cpu::AdamWFactors& f, Range elements) {
  float* p = range.param.data<float>() + elements.begin;
  const float* grad = range.grad.data<float>() + elements.begin;
  float* exp_avg = range.exp_avg.data<float>() + elements.begin;
  float* exp_avg_sq = range.exp_avg_sq.data<float>() + elements.begin;
  sweep(static_cast<std::size_t>(elements.size()), [&](std::size_t i, auto lanes) HWY_ATTR {
    const VecF32 g = hn::Mul(lanes.load(grad + i), set(f.grad));
    const VecF32 m = hn::MulAdd(set(f.beta1), lanes.load(exp_avg + i), hn::Mul(set(f.new1), g));
    const VecF32 v = hn::MulAdd(set(f.beta2), lanes.load(exp_avg_sq + i), hn::Mul(set(f.new2), hn::Mul(g, g)));
    const VecF32 denominator = hn::MulAdd(hn::Sqrt(v), set(f.root), set(f.eps));
    const VecF32 old = lanes.load(p + i);
    const VecF32 update = hn::MulAdd(set(f.decay), old, hn::Div(hn::Mul(set(f.rate), m), denominator));
    lanes.store(m, exp_avg + i);
    lanes.store(v, exp_avg_sq + i);
    lanes.store(hn::Sub(old, update), p + i);
  });
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mtl::cpu {
namespace {
HWY_EXPORT(adamw_range);

AdamWFactors factors_of(const StepState& state, const AdamWOptions& options, bool decays) {
  const auto step = static_cast<double>(state.step);
  AdamWFactors f{};
  f.grad = static_cast<float>(state.clip_scale / state.loss_scale);
  f.beta1 = static_cast<float>(options.beta1);
  f.beta2 = static_cast<float>(options.beta2);
  f.new1 = static_cast<float>(1 - options.beta1);
  f.new2 = static_cast<float>(1 - options.beta2);
  f.rate = static_cast<float>(state.lr / (1 - std::pow(options.beta1, step)));
  f.root = static_cast<float>(1 / std::sqrt(1 - std::pow(options.beta2, step)));
  f.eps = static_cast<float>(options.eps);
  f.decay = decays ? static_cast<float>(state.lr * state.weight_decay) : 0.0f;
  return f;
}
}  // namespace

void adamw_step(Stream& stream, const AdamWRange& range, const AdamWOptions& options, const StepState* state) {
  if (state->found_inf != 0) return;
  const AdamWFactors factors = factors_of(*state, options, range.decays);
  Blocks blocks{range.param.numel(), kSerialElements};
  parallel_for(stream.threads(), blocks.number(), range.param.numel(), [&](std::int64_t block) {
    HWY_DYNAMIC_DISPATCH(adamw_range)(range, factors, blocks[block]);
  });
}

}  // namespace mtl::cpu
#endif
