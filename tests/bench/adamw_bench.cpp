// Measures what counting lost updates costs: mtl_bench_adamw THREADS. Updates 32 million parameters alternately with
// and without counting. For each setting, prints the median nanoseconds per parameter without counting and the median
// difference, as JSON.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "kernels/update_rules_cpu.h"
#include "tests/kernels/reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr std::int64_t kParameters = 32 << 20;
constexpr int kRounds = 31;

/// A run's parameter dtypes.
struct Setting {
  const char* name;
  DType param;
  bool has_copy = false;  // the layers read a bf16 copy
  bool rounds_stochastically = false;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(const Setting& setting, int threads) {
  Stream stream(Device::cpu, threads);
  const auto random_values = [](DType dtype, double spread) {
    Owned out(dtype, {kParameters});
    std::uint32_t state = 1;
    with_float_type(dtype, [&]<class T>(T) {
      T* values = out.host<T>();
      for (std::int64_t i = 0; i < kParameters; ++i) {
        state = state * 1664525 + 1013904223;
        values[i] = narrow<T>(static_cast<float>(spread * (static_cast<double>(state >> 8) / 8388608 - 1)));
      }
    });
    return out;
  };
  const Owned param = random_values(setting.param, 0.02), grad = random_values(DType::f32, 1e-3),
              copy = random_values(DType::bf16, 0.02);
  const Owned exp_avg({kParameters}), exp_avg_sq({kParameters});
  UpdateRange range{param, grad, {exp_avg, exp_avg_sq}};
  if (setting.has_copy) range.copy = copy;
  if (setting.rounds_stochastically) range.rounding = PhiloxKey{1, 2};
  range.elements.inner = range.elements.pitch = kParameters;
  StepState state;
  state.lr = 1e-4;
  state.grad_factor = 1;
  std::vector<double> plain, difference;
  for (int round = 0; round < kRounds; ++round) {
    double seconds[2] = {};
    for (int turn = 0; turn < 2; ++turn) {
      const bool counts = (turn + round) % 2 == 0;  // alternates which runs first
      ++state.step;
      state.factors[0] = adamw_factors(state, {});
      const auto begin = std::chrono::steady_clock::now();
      cpu::adamw_step(stream, range, {}, &state, counts);
      seconds[counts] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    plain.push_back(seconds[0]);
    difference.push_back(seconds[1] - seconds[0]);
  }
  require(state.nonzero_updates > kParameters, "adamw_step did not count the updates");
  constexpr double kNano = 1e9 / static_cast<double>(kParameters);
  std::printf("{\"setting\": \"%s\", \"ns\": %.4f, \"counts_ns\": %.4f}\n", setting.name, kNano * median(plain),
              kNano * median(difference));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: mtl_bench_adamw THREADS\n", stderr);
    return 2;
  }
  const int threads = std::atoi(argv[1]);
  measure({.name = "fp32", .param = DType::f32}, threads);
  measure({.name = "bf16, fp32 main weights", .param = DType::f32, .has_copy = true}, threads);
  measure({.name = "bf16 alone", .param = DType::bf16}, threads);
  measure({.name = "bf16 alone, stochastic rounding", .param = DType::bf16, .rounds_stochastically = true}, threads);
}
