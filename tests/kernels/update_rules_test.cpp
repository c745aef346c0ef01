// SGD, Muon's passes, and what Newton-Schulz iterations need besides products, compared with fp64. AdamW's test covers
// what all rules share: rounding, counts, and the copy of the weights.
#include "kernels/update_rules.h"

#include <cmath>
#include <cstring>

#include "kernels/newton_schulz.h"
#include "tests/kernels/reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// A StepState in device memory.
struct OnDevice {
  Owned memory{DType::u8, {sizeof(StepState)}};
  explicit OnDevice(StepState state, const UpdateFactors& factors) {
    state.factors[1] = factors;
    state.grad_factor = static_cast<float>(state.clip_scale / state.loss_scale);
    std::memcpy(memory.host<std::uint8_t>(), &state, sizeof state);
  }
  StepState* state() const { return static_cast<StepState*>(memory.tensor().raw()); }
};

double step_gradient(std::size_t i, int step) { return std::sin(static_cast<double>(i) + 10.0 * step) * 100; }

Owned gradients(std::int64_t n, int step) {
  Owned out({n});
  for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(step_gradient(static_cast<std::size_t>(i), step));
  return out;
}

}  // namespace

TEST_CASE("sgd: five steps equal the fp64 reference, with and without decay, clipped and loss-scaled") {
  Stream stream(kDevice, 2);
  for (std::int64_t n : {1, 7, 1031, 40000}) {
    for (bool decays : {true, false}) {
      Owned p = random_tensor({n}, 1), m = filled({n}, 0);
      std::vector<double> param = p.values(), momentum(param.size(), 0.0);
      for (int t = 1; t <= 5; ++t) {
        const StepState state{{.step = t, .lr = 1e-2 / t, .weight_decay = 0.1, .loss_scale = 128}, {.clip_scale = 0.5}};
        const Owned grad = gradients(n, t);
        const std::vector<double> stored = grad.values();
        for (std::size_t i = 0; i < param.size(); ++i) {
          momentum[i] = 0.9 * momentum[i] + stored[i] * 0.5 / 128 + (decays ? 0.1 : 0) * param[i];
          param[i] -= state.lr * momentum[i];
        }
        sgd_step(stream, {.param = p, .grad = grad, .states = {m}, .factors = 1, .decays = decays}, 0.9,
                 OnDevice(state, sgd_factors(state)).state());
      }
      CHECK(relative_rms(p, param) < kTolerance.elementwise);
      CHECK(relative_rms(m, momentum) < kTolerance.reduction);
    }
  }
}

TEST_CASE("muon: the momentum replaces the gradient, with and without Nesterov's, in fp32 and bf16") {
  Stream stream(kDevice, 2);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (bool nesterov : {false, true}) {
      for (std::int64_t n : {1, 1031, 40000}) {
        CAPTURE(n);
        CAPTURE(nesterov);
        Owned m = rounded(random_tensor({n}, 1), dtype), grad = rounded(gradients(n, 1), dtype);
        std::vector<double> momentum = m.values(), u = grad.values();
        for (std::size_t i = 0; i < u.size(); ++i) {
          const double g = u[i] * 0.5 / 4;
          momentum[i] = 0.95 * momentum[i] + 0.05 * g;
          u[i] = nesterov ? 0.05 * g + 0.95 * momentum[i] : momentum[i];
        }
        const StepState state{{.step = 1, .loss_scale = 4}, {.clip_scale = 0.5}};
        muon_momentum(stream, {.param = {}, .grad = grad, .states = {m}}, {.momentum = 0.95, .nesterov = nesterov},
                      OnDevice(state, {}).state());
        const double limit = dtype == DType::f32 ? kTolerance.elementwise : 4e-3;
        CHECK(relative_rms(m, momentum) < limit);
        CHECK(relative_rms(grad, u) < limit);
      }
    }
  }
}

TEST_CASE("muon: the descent follows the direction and the decay, and counts its updates") {
  Stream stream(kDevice, 2);
  for (std::int64_t n : {1, 1031, 40000}) {
    Owned p = random_tensor({n}, 1), u = random_tensor({n}, 2);
    std::vector<double> param = p.values();
    const std::vector<double> direction = u.values();
    for (std::size_t i = 0; i < param.size(); ++i) param[i] -= 0.01 * direction[i] + 0.001 * param[i];
    const OnDevice step({{.step = 1, .loss_scale = 128}, {}}, {.rate = 0.01f, .decay = 0.001f});
    descent_step(stream, {.param = p, .grad = u, .states = {}, .factors = 1}, step.state());
    CHECK(relative_rms(p, param) < kTolerance.elementwise);
    StepState after;
    std::memcpy(&after, step.memory.host<std::uint8_t>(), sizeof after);
    CHECK(after.nonzero_updates == n);
  }
}

TEST_CASE("update rules: a step with a non-finite norm changes nothing") {
  Stream stream(kDevice);
  Owned p = random_tensor({100}, 1), grad = random_tensor({100}, 2), m = random_tensor({100}, 3);
  const std::vector<double> param = p.values(), gradient = grad.values(), momentum = m.values();
  const OnDevice step({{.step = 1, .lr = 1}, {.clip_scale = NAN, .found_inf = 1}}, {.rate = 1});
  sgd_step(stream, {.param = p, .grad = grad, .states = {m}, .factors = 1}, 0.9, step.state());
  muon_momentum(stream, {.param = {}, .grad = grad, .states = {m}}, {}, step.state());
  descent_step(stream, {.param = p, .grad = grad, .states = {}, .factors = 1}, step.state());
  CHECK(p.values() == param);
  CHECK(grad.values() == gradient);
  CHECK(m.values() == momentum);
}

TEST_CASE("update rules: operands of wrong shapes or numbers throw") {
  Stream stream(Device::meta);
  CHECK_THROWS_AS(sgd_step(stream, {meta({10}), meta({10}), {meta({9})}}, 0.9, nullptr), Error);
  CHECK_THROWS_AS(sgd_step(stream, {meta({10}), meta({10}), {}}, 0.9, nullptr), Error);
  CHECK_THROWS_AS(muon_momentum(stream, {meta({10}), meta({10}), {meta({10})}}, {}, nullptr), Error);
  CHECK_THROWS_AS(descent_step(stream, {meta({10}), meta({10}), {meta({10})}}, nullptr), Error);
  CHECK_THROWS_AS(quintic_polynomial(stream, meta({4, 5}), meta({4, 5}), {}), Error);
  CHECK_THROWS_AS(divide_by_norm(stream, meta({4}), meta({5}), meta({1}, DType::f64)), Error);
  stream.reset_counters();
  sgd_step(stream, {meta({10}), meta({10}), {meta({10})}}, 0.9, nullptr);
  CHECK(stream.counters().bytes == 200);
}

TEST_CASE("Newton-Schulz: dividing by the norm has a floor, and the polynomial equals fp64") {
  Stream stream(kDevice, 2);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const double limit = dtype == DType::f32 ? kTolerance.elementwise : 4e-3;
    for (double norm : {3.0, 1e-9}) {
      const Owned x = random_tensor({1031}, 1);
      Owned out(dtype, {1031}), sum(DType::f64, {1});
      sum.host<double>()[0] = norm * norm;
      std::vector<double> expected = x.values();
      for (double& value : expected) value /= std::max(norm, 1e-7);
      divide_by_norm(stream, out, x, sum);
      CHECK(relative_rms(out, expected) < limit);
    }
    for (std::int64_t size : {1, 5, 33, 128}) {
      const Owned a = rounded(random_tensor({size, size}, 1), dtype);
      Owned squared = rounded(random_tensor({size, size}, 2), dtype);
      const std::vector<double> linear = a.values();
      std::vector<double> expected = squared.values();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const auto columns = static_cast<std::size_t>(size);
        expected[i] = (i / columns == i % columns ? 3.5 : 0) - 4.75 * linear[i] + 2.25 * expected[i];
      }
      quintic_polynomial(stream, squared, a, {3.5f, -4.75f, 2.25f});
      CHECK(relative_rms(squared, expected) < limit);
    }
  }
}
