// AdamW, compared with fp64 over several steps.
#include "kernels/update_rules.h"

#include <cstring>

#include "tests/kernels/reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

struct Parameters {
  std::int64_t n;
  Owned p = random_tensor({n}, 1), grad = random_tensor({n}, 2), m = filled({n}, 0), v = filled({n}, 0);
  UpdateRange range(bool decays = true) const { return {.param = p, .grad = grad, .states = {m, v}, .decays = decays}; }
};

const AdamWOptions kOptions{.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};

/// A StepState in device memory, with its factors.
struct OnDevice {
  Owned memory{DType::u8, {sizeof(StepState)}};
  explicit OnDevice(StepState state, const AdamWOptions& options = kOptions) {
    state.factors[0] = adamw_factors(state, options);
    state.grad_factor = static_cast<float>(state.clip_scale / state.loss_scale);
    std::memcpy(memory.host<std::uint8_t>(), &state, sizeof state);
  }
  StepState* state() const { return static_cast<StepState*>(memory.tensor().raw()); }
};

}  // namespace

TEST_CASE("adamw: five steps equal the fp64 reference, with and without decay, clipped and loss-scaled") {
  Stream stream(kDevice, 2);
  for (std::int64_t n : {1, 3, 7, 1031, 40000}) {
    for (bool decays : {true, false}) {
      Parameters x{n};
      std::vector<double> p = x.p.values(), m(p.size(), 0.0), v(p.size(), 0.0);
      for (int t = 1; t <= 5; ++t) {
        const StepState state{{.step = t, .lr = 1e-2 / t, .weight_decay = 0.1, .loss_scale = 128}, {.clip_scale = 0.5}};
        for (std::int64_t i = 0; i < n; ++i) x.grad[i] = std::sin(static_cast<float>(i + 10 * t)) * 100;
        const std::vector<double> grad = x.grad.values();
        for (std::size_t i = 0; i < p.size(); ++i) {
          const double g = grad[i] * state.clip_scale / state.loss_scale;
          m[i] = kOptions.beta1 * m[i] + (1 - kOptions.beta1) * g;
          v[i] = kOptions.beta2 * v[i] + (1 - kOptions.beta2) * g * g;
          const double m_hat = m[i] / (1 - std::pow(kOptions.beta1, t)),
                       v_hat = v[i] / (1 - std::pow(kOptions.beta2, t));
          p[i] -= state.lr * (m_hat / (std::sqrt(v_hat) + kOptions.eps) + (decays ? state.weight_decay : 0) * p[i]);
        }
        adamw_step(stream, x.range(decays), kOptions, OnDevice(state).state());
      }
      CHECK(relative_rms(x.p, p) < kTolerance.elementwise);
      CHECK(relative_rms(x.m, m) < kTolerance.reduction);  // sums over steps, which may cancel
      CHECK(relative_rms(x.v, v) < kTolerance.elementwise);
    }
  }
}

namespace {

struct DTypes {
  DType param, copy, grad, exp_avg, exp_avg_sq;  // `copy` equals `param` if there is no copy
};

/// One step on operands with these dtypes, converted from the same fp32 numbers.
struct MixedStep {
  DTypes types;
  std::int64_t n;
  Owned p = random_tensor(types.param, {n}, 1), grad = random_tensor(types.grad, {n}, 2);
  Owned m = random_tensor(types.exp_avg, {n}, 3), v = filled({n}, 0), copy = rounded(p, types.copy);
  OnDevice step{{{.step = 3, .lr = 1e-3, .weight_decay = 0.1, .loss_scale = 16}, {.clip_scale = 0.5}}};

  explicit MixedStep(const DTypes& of, std::int64_t count) : types(of), n(count) {
    Owned squares = random_tensor({n}, 4);
    for (std::int64_t i = 0; i < n; ++i) squares[i] = squares[i] * squares[i];
    v = rounded(squares, types.exp_avg_sq);
  }
  bool has_copy() const { return types.copy != types.param; }
  UpdateRange range() const {
    return {.param = p, .grad = grad, .states = {m, v}, .copy = has_copy() ? copy.tensor() : Tensor()};
  }
};

}  // namespace

TEST_CASE("adamw: every mixture of dtypes equals the rounded fp64 reference, and lost updates are counted") {
  constexpr DType f32 = DType::f32, bf16 = DType::bf16, f16 = DType::f16;
  Stream stream(kDevice, 2);
  for (const DTypes& types :  // param, copy, grad, exp_avg, exp_avg_sq
       {DTypes{f32, bf16, f32, f32, f32}, DTypes{f32, f16, f32, f32, f32}, DTypes{f32, bf16, bf16, bf16, bf16},
        DTypes{bf16, bf16, bf16, bf16, bf16}, DTypes{f16, f16, f32, f32, bf16}, DTypes{f32, f32, f32, f32, f32}}) {
    for (std::int64_t n : {1, 513, 40001}) {
      CAPTURE(std::string(name_of(types.param)));
      CAPTURE(std::string(name_of(types.copy)));
      CAPTURE(n);
      MixedStep x(types, n);
      const std::vector<double> old = x.p.values(), grad = x.grad.values(), copy = x.copy.values();
      std::vector<double> p = old, m = x.m.values(), v = x.v.values();
      for (std::size_t i = 0; i < p.size(); ++i) {
        const double g = grad[i] * 0.5 / 16;
        m[i] = kOptions.beta1 * m[i] + (1 - kOptions.beta1) * g;
        v[i] = kOptions.beta2 * v[i] + (1 - kOptions.beta2) * g * g;
        const double m_hat = m[i] / (1 - std::pow(kOptions.beta1, 3)), v_hat = v[i] / (1 - std::pow(kOptions.beta2, 3));
        p[i] -= 1e-3 * (m_hat / (std::sqrt(v_hat) + kOptions.eps) + 0.1 * p[i]);
      }
      adamw_step(stream, x.range(), kOptions, x.step.state());
      CHECK(relative_rms(x.p, p) < rounding_of(types.param, kTolerance.elementwise));
      CHECK(relative_rms(x.m, m) < rounding_of(types.exp_avg, kTolerance.reduction));
      CHECK(relative_rms(x.v, v) < rounding_of(types.exp_avg_sq, kTolerance.elementwise));
      StepState counted;
      std::memcpy(&counted, x.step.memory.host<std::uint8_t>(), sizeof counted);
      const std::vector<double> fresh = x.p.values(), fresh_copy = x.copy.values();
      std::int64_t lost = 0, lost_copies = 0;
      for (std::size_t i = 0; i < old.size(); ++i) {
        lost += fresh[i] == old[i] ? 1 : 0;  // every update is nonzero
        lost_copies += x.has_copy() && fresh[i] != old[i] && fresh_copy[i] == copy[i] ? 1 : 0;
      }
      CHECK(counted.nonzero_updates == n);
      CHECK(counted.lost_updates == lost);
      CHECK(counted.lost_copies == lost_copies);
      if (n > 10000 && types.param == bf16) CHECK(lost > n / 10);
      if (n > 10000 && types.copy == bf16 && x.has_copy()) CHECK(lost_copies > n / 10);
      if (x.has_copy()) CHECK(same_bits(x.copy, rounded(rounded(fresh, {n}), types.copy)));
    }
  }
}

namespace {

/// bf16 weights equal to 1. A step reduces each by 2^-12, which is a sixteenth of the distance from 1 to the next lower
/// bf16 number.
struct Ones {
  Owned p, grad, m, v;
  explicit Ones(std::int64_t n)
      : p(rounded(filled({n}, 1), DType::bf16)), grad(filled({n}, 1)), m(filled({n}, 0)), v(filled({n}, 0)) {}
  void step(std::int64_t number, const ElementMap& elements) const {
    Stream stream(kDevice, 2);
    constexpr AdamWOptions kGradientOnly{.beta1 = 0, .beta2 = 0, .eps = 0};
    const OnDevice state({{.step = number, .lr = 0x1p-12}, {}}, kGradientOnly);
    const UpdateRange range{
        .param = p, .grad = grad, .states = {m, v}, .decays = false, .rounding = PhiloxKey{5, 6}, .elements = elements};
    adamw_step(stream, range, kGradientOnly, state.state());
  }
};

}  // namespace

TEST_CASE("adamw: stochastic rounding picks one of the two neighboring numbers, and is unbiased") {
  constexpr std::int64_t n = 100003;
  const Ones x(n);
  x.step(1, {.inner = n, .pitch = n});
  double sum = 0;
  for (double p : x.p.values()) {
    CHECK((p == 1 || p == 1 - 0x1p-8));
    sum += p;
  }
  // One in 16 rounds down, so the mean has a standard deviation of 2^-8 sqrt(15/256/n).
  CHECK(std::abs(sum / n - (1 - 0x1p-12)) < 5 * 0x1p-8 * std::sqrt(15.0 / 256 / n));
  const Ones later(n);
  later.step(2, {.inner = n, .pitch = n});
  CHECK_FALSE(same_bits(x.p, later.p));
}

TEST_CASE("adamw: stochastic rounding of an element does not depend on which part of the tensor a rank holds") {
  constexpr std::int64_t rows = 37, columns = 90, n = rows * columns;
  const Ones whole(n);
  whole.step(7, {.inner = n, .pitch = n});
  const std::vector<double> expected = whole.p.values();
  for (const std::int64_t first : {0, 45}) {  // halves of the columns; both ranges start 11 elements in
    const Ones part(rows * 45 - 11);
    part.step(7, {.first = first, .inner = 45, .pitch = columns, .skipped = 11});
    const std::vector<double> p = part.p.values();
    std::size_t differing = 0;
    for (std::int64_t i = 0; i < part.p.numel(); ++i) {
      const std::int64_t held = i + 11, at = held / 45 * columns + first + held % 45;
      differing += p[static_cast<std::size_t>(i)] == expected[static_cast<std::size_t>(at)] ? 0 : 1;
    }
    CHECK(differing == 0);
  }
}

TEST_CASE("adamw: stochastic rounding adds the Philox bits of the element") {
  constexpr std::int64_t n = 1003;
  for (const ElementMap& map : {ElementMap{.inner = n, .pitch = n}, ElementMap{.first = 2, .inner = 3, .pitch = 7},
                                ElementMap{.first = 5, .inner = 13, .pitch = 40, .skipped = 17}}) {
    CAPTURE(map.inner);
    const Ones x(n);
    x.step(9, map);
    const std::vector<double> p = x.p.values();
    std::size_t differing = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t held = map.skipped + i;
      const auto number = static_cast<std::uint64_t>(map.first + held / map.inner * map.pitch + held % map.inner);
      const std::uint32_t word = philox({5, 6}, 9, number / 8)[number % 8 / 2];
      const std::uint32_t random = number % 2 == 0 ? word & 0xFFFF : word >> 16;
      // 1 - 2^-12 is 0x3F7FF000. Adding at least 0x1000 to the lower half carries into the upper half, which is kept.
      const double expected = random >= 0x1000 ? 1 : 1 - 0x1p-8;
      differing += p[static_cast<std::size_t>(i)] == expected ? 0 : 1;
    }
    CHECK(differing == 0);
  }
}

TEST_CASE("adamw: a step with a non-finite norm changes no parameter and no moment") {
  Stream stream(kDevice);
  Parameters x{100};
  const std::vector<double> before = x.p.values();
  const OnDevice step({{.step = 1, .lr = 1}, {.clip_scale = NAN, .found_inf = 1}});
  adamw_step(stream, x.range(), kOptions, step.state());
  CHECK(x.p.values() == before);
  CHECK(x.m.values() == std::vector<double>(100, 0.0));
}

TEST_CASE("adamw: the factors of a step correct the bias of the moments") {
  for (const std::int64_t step : {1, 3, 100000}) {
    const UpdateFactors factors = adamw_factors({.step = step, .lr = 3e-4, .weight_decay = 0.1}, kOptions);
    const auto t = static_cast<double>(step);
    const auto near = [](double expected) { return doctest::Approx(expected).epsilon(1e-7); };
    CHECK(double{factors.rate} == near(3e-4 / (1 - std::pow(0.9, t))));
    CHECK(double{factors.root} == near(1 / std::sqrt(1 - std::pow(0.95, t))));
    CHECK(double{factors.decay} == near(3e-5));
  }
}

TEST_CASE("adamw: one thread and four, and any division of the range, produce the same bits") {
  const OnDevice step({{.step = 3, .lr = 1e-2, .weight_decay = 0.1}, {}});
  Stream serial(kDevice, 1), parallel(kDevice, 4);
  Parameters one{100003}, four{100003}, cut{100003};
  for (const Parameters* x : {&one, &four, &cut}) {
    for (std::int64_t i = 0; i < x->n; ++i) x->m[i] = std::sin(static_cast<float>(i)), x->v[i] = x->m[i] * x->m[i];
  }
  adamw_step(serial, one.range(), kOptions, step.state());
  adamw_step(parallel, four.range(), kOptions, step.state());
  for (auto [begin, count] : {std::pair<std::int64_t, std::int64_t>{0, 33333}, {33333, 66670}}) {
    const auto part = [&, b = begin, c = count](const Owned& t) { return t.tensor().flat(b, c); };
    adamw_step(serial, {part(cut.p), part(cut.grad), {part(cut.m), part(cut.v)}}, kOptions, step.state());
  }
  CHECK(same_bits(one.p, four.p));
  CHECK(same_bits(one.p, cut.p));
  CHECK(same_bits(one.m, cut.m));
  CHECK(same_bits(one.v, cut.v));
  if (kDevice != Device::cuda) return;  // a CPU's rounding depends on whether it has fused multiply-add
  const auto new1 = static_cast<float>(1 - kOptions.beta1), beta1 = static_cast<float>(kOptions.beta1);
  for (std::int64_t i = 0; i < one.n; ++i)
    REQUIRE(one.m[i] == std::fma(beta1, std::sin(static_cast<float>(i)), new1 * one.grad[i]));
}

TEST_CASE("adamw: counts 28 bytes per parameter on meta; wrong shapes throw") {
  Stream stream(Device::meta);
  adamw_step(stream, {meta({10}), meta({10}), {meta({10}), meta({10})}}, kOptions, nullptr);
  CHECK(stream.counters().bytes == 280);
  CHECK_THROWS_AS(adamw_step(stream, {meta({10}), meta({10}), {meta({9}), meta({10})}}, kOptions, nullptr), Error);
  stream.reset_counters();
  UpdateRange mixed{meta({10}), meta({10}), {meta({10}), meta({10})}};
  mixed.copy = meta({10}, DType::bf16);
  adamw_step(stream, mixed, kOptions, nullptr);
  CHECK(stream.counters().bytes == 320);
  mixed.rounding = PhiloxKey{};
  CHECK_THROWS_AS(adamw_step(stream, mixed, kOptions, nullptr), Error);
  CHECK_THROWS_AS(adamw_step(stream, {meta({10}), meta({10}, DType::f64), {meta({10}), meta({10})}}, kOptions, nullptr),
                  Error);
}
