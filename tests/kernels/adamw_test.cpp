// AdamW against fp64, over several steps.
#include "kernels/adamw.h"

#include <cstring>

#include "tests/kernels/reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

struct Parameters {
  std::int64_t n;
  Owned p = random_tensor({n}, 1), grad = random_tensor({n}, 2), m = filled({n}, 0), v = filled({n}, 0);
  AdamWRange range(bool decays = true) const { return {p, grad, m, v, decays}; }
};

/// A StepState where operators run.
struct OnDevice {
  Owned memory{DType::u8, {sizeof(StepState)}};
  explicit OnDevice(const StepState& state) { std::memcpy(memory.host<std::uint8_t>(), &state, sizeof state); }
  StepState* state() const { return static_cast<StepState*>(memory.tensor().raw()); }
};

const AdamWOptions kOptions{.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};

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

TEST_CASE("adamw: a step whose norm is not finite changes nothing") {
  Stream stream(kDevice);
  Parameters x{100};
  const std::vector<double> before = x.p.values();
  const OnDevice step({{.step = 1, .lr = 1}, {.clip_scale = NAN, .found_inf = 1}});
  adamw_step(stream, x.range(), kOptions, step.state());
  CHECK(x.p.values() == before);
  CHECK(x.m.values() == std::vector<double>(100, 0.0));
}

TEST_CASE("adamw: one thread and four, and any cut of the range, give the same bits") {
  const OnDevice step({{.step = 3, .lr = 1e-2, .weight_decay = 0.1}, {}});
  Stream serial(kDevice, 1), parallel(kDevice, 4);
  Parameters one{100003}, four{100003}, cut{100003};
  adamw_step(serial, one.range(), kOptions, step.state());
  adamw_step(parallel, four.range(), kOptions, step.state());
  for (auto [begin, count] : {std::pair<std::int64_t, std::int64_t>{0, 33333}, {33333, 66670}}) {
    const auto part = [&, b = begin, c = count](const Owned& t) { return t.tensor().flat(b, c); };
    adamw_step(serial, {part(cut.p), part(cut.grad), part(cut.m), part(cut.v)}, kOptions, step.state());
  }
  CHECK(same_bits(one.p, four.p));
  CHECK(same_bits(one.p, cut.p));
  CHECK(same_bits(one.v, cut.v));
}

TEST_CASE("adamw: meta counts 28 bytes a parameter; wrong shapes throw") {
  Stream stream(Device::meta);
  adamw_step(stream, {meta({10}), meta({10}), meta({10}), meta({10})}, kOptions, nullptr);
  CHECK(stream.counters().bytes == 280);
  CHECK_THROWS_AS(adamw_step(stream, {meta({10}), meta({10}), meta({9}), meta({10})}, kOptions, nullptr), Error);
  CHECK_THROWS_AS(adamw_step(stream, {meta({10}), meta({10}, DType::f64), meta({10}), meta({10})}, kOptions, nullptr),
                  Error);
}
