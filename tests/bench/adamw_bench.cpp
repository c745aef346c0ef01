// The cost of counting lost updates: mtl_bench_adamw THREADS. Alternates updates of 32 million parameters with and
// without the counts, and prints JSON: for each setting, the median nanoseconds per parameter without the counts, and
// the median of the difference.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "kernels/adamw_cpu.h"
#include "tests/kernels/reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr std::int64_t kParameters = 32 << 20;
constexpr int kRounds = 31;

/// A setting's dtypes; f32 has no copy.
struct Setting {
  const char* name;
  DType param;
  bool has_copy, rounds_stochastically;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void measure(const Setting& setting, int threads) {
  Stream stream(Device::cpu, threads);
  const auto make = [](DType dtype, double spread) {
    Owned out(dtype, {kParameters});
    std::uint32_t state = 1;
    with_float_type(dtype, [&]<class T>(T) {
      T* to = out.host<T>();
      for (std::int64_t i = 0; i < kParameters; ++i) {
        state = state * 1664525 + 1013904223;
        to[i] = narrow<T>(static_cast<float>(spread * (static_cast<double>(state >> 8) / 8388608 - 1)));
      }
    });
    return out;
  };
  const Owned param = make(setting.param, 0.02), grad = make(DType::f32, 1e-3), copy = make(DType::bf16, 0.02);
  const Owned exp_avg({kParameters}), exp_avg_sq({kParameters});
  AdamWRange range{param, grad, exp_avg, exp_avg_sq};
  if (setting.has_copy) range.copy = copy;
  if (setting.rounds_stochastically) range.rounding = PhiloxKey{1, 2};
  range.elements.inner = range.elements.pitch = kParameters;
  StepState state;
  state.lr = 1e-4;
  std::vector<double> plain, added;
  for (int round = 0; round < kRounds; ++round) {
    double seconds[2] = {};
    for (int turn = 0; turn < 2; ++turn) {
      const bool counted = (turn + round) % 2 == 0;  // alternates which is first
      ++state.step;
      const auto begin = std::chrono::steady_clock::now();
      cpu::adamw_step(stream, range, {}, &state, counted);
      seconds[counted] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    plain.push_back(seconds[0]);
    added.push_back(seconds[1] - seconds[0]);
  }
  require(state.nonzero_updates > kParameters, "the counted updates were not counted");
  constexpr double kNano = 1e9 / static_cast<double>(kParameters);
  std::printf("{\"setting\": \"%s\", \"ns\": %.4f, \"counts_ns\": %.4f}\n", setting.name, kNano * median(plain),
              kNano * median(added));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: mtl_bench_adamw THREADS\n", stderr);
    return 2;
  }
  const int threads = std::atoi(argv[1]);
  measure({"fp32", DType::f32, false, false}, threads);
  measure({"bf16, fp32 main weights", DType::f32, true, false}, threads);
  measure({"bf16 alone", DType::bf16, false, false}, threads);
  measure({"bf16 alone, stochastic rounding", DType::bf16, false, true}, threads);
}
