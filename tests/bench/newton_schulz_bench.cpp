// Measures Newton-Schulz iterations against the machine's products: mtl_bench_newton_schulz THREADS. For each matrix of
// GPT-2 124M and both dtypes, prints the rate of five iterations and that of the same three products alone, in GFLOP/s,
// as JSON. The runs alternate; figures are medians.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "kernels/gemm.h"
#include "optim/newton_schulz.h"
#include "tests/kernels/reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr int kRounds = 7, kSteps = 5;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <class Work>
double seconds_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void measure(std::int64_t rows, std::int64_t columns, DType compute, int threads) {
  Stream stream(Device::cpu, threads);
  Arena scratch(Device::cpu, "scratch", std::size_t{256} << 20);
  const std::int64_t size = std::min(rows, columns);
  const Owned start = random_tensor({rows, columns}, 1), x = rounded(start, compute);
  const Owned a(compute, {size, size}), squared(compute, {size, size}), next(compute, {rows, columns});
  const std::vector<QuinticStep> steps = quintic_steps("quintic", kSteps);
  std::vector<double> iterations, products;
  double flops = 0;
  for (int round = 0; round <= kRounds; ++round) {
    const Owned matrix = rounded(start, DType::f32);
    stream.reset_counters();
    const double all = seconds_of([&] { orthogonalize(stream, scratch, matrix, steps, 1, compute); });
    flops = stream.counters().flops;
    const double alone = seconds_of([&] {
      for (int i = 0; i < kSteps; ++i) {
        const bool is_wide = rows <= columns;
        is_wide ? gemm(stream, scratch, a, {x}, transposed(x)) : gemm(stream, scratch, a, transposed(x), {x});
        gemm(stream, scratch, squared, {a}, {a});
        is_wide ? gemm(stream, scratch, next, {squared}, {x}) : gemm(stream, scratch, next, {x}, {squared});
      }
    });
    if (round == 0) continue;  // loads primitives
    iterations.push_back(flops / all * 1e-9);
    products.push_back(flops / alone * 1e-9);
  }
  std::printf("{\"rows\": %lld, \"columns\": %lld, \"dtype\": \"%s\", \"gflops\": %.1f, \"products\": %.1f}\n",
              static_cast<long long>(rows), static_cast<long long>(columns), name_of(compute), median(iterations),
              median(products));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  for (const DType compute : {DType::f32, DType::bf16})
    for (auto [rows, columns] : {std::pair<std::int64_t, std::int64_t>{768, 768}, {3072, 768}, {768, 3072}})
      measure(rows, columns, compute, threads);
}
