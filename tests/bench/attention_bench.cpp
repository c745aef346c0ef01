// Times attention on this machine: forward, backward and one decoded token, in each dtype. Reports the fastest run.
//   mtl_bench_attention [THREADS]
//   mtl_bench_attention cuda|cpu [all|attention [tiny]]    as a GPU runs it (attention_on_device.h)
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "kernels/attention.h"
#include "tests/bench/attention_on_device.h"
#include "tests/kernels/reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};

struct Sizes {
  std::int64_t batch, heads, length, dim, window = 0;
};

/// Returns each call's fastest time in milliseconds. Allows one second per call in total, and at least 5 rounds.
/// Running the calls in turn spreads other load over all of them, and the fastest run is affected least.
std::vector<double> fastest_ms(const std::vector<std::function<void()>>& calls) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(calls.size());
  std::vector<double> fastest(calls.size(), 1e30);
  for (int runs = 0; runs < 5 || Clock::now() < end; ++runs) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const auto start = Clock::now();
      calls[i]();
      fastest[i] = std::min(fastest[i], std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    }
  }
  return fastest;
}

struct Training {
  Training(DType dtype, const Sizes& s, float dropout)
      : qkv(random_tensor(dtype, {s.batch, s.length, s.heads, 3, s.dim}, 1)),
        dout(random_tensor(dtype, {s.batch, s.length, s.heads, s.dim}, 2)),
        dqkv(dtype, qkv.shape()),
        out(dtype, dout.shape()),
        logsumexp({s.batch, s.heads, s.length}),
        samples(static_cast<std::size_t>(s.batch)) {
    in.qkv = unpack_qkv(qkv);
    in.scale = 1 / std::sqrt(static_cast<float>(s.dim));
    in.window = s.window;
    in.dropout = {dropout, {1, 2}};
    in.rows = {Tensor(samples.data(), DType::i64, {s.batch}), 0, s.length};
  }
  void forward(Stream& stream, Arena& scratch) const { attention_forward(stream, scratch, out, logsumexp, in); }
  void backward(Stream& stream, Arena& scratch) const {
    attention_backward(stream, scratch, unpack_qkv(dqkv), dout, out, logsumexp, in);
  }

  Owned qkv, dout, dqkv, out, logsumexp;
  std::vector<std::int64_t> samples;
  AttentionInput in;
};

void time_training(const Sizes& s, float dropout, int threads) {
  Stream stream(Device::cpu, threads);
  Arena scratch(Device::cpu, "scratch", std::size_t{256} << 20);
  std::vector<Training> runs;
  for (DType dtype : kTypes) runs.emplace_back(dtype, s, dropout);
  std::vector<std::function<void()>> forward, backward;
  for (const Training& run : runs) {
    forward.emplace_back([&] { run.forward(stream, scratch); });
    backward.emplace_back([&] { run.backward(stream, scratch); });
  }
  runs[0].forward(stream, scratch);
  const double flops = stream.counters().flops;
  const std::vector<double> forward_ms = fastest_ms(forward), backward_ms = fastest_ms(backward);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::printf(
        "B %3ld  H %3ld  T %5ld  D %3ld  window %5ld  dropout %.1f  %-8s  "
        "forward %8.3f ms (%5.1f GFLOP/s)   backward %8.3f ms (%5.1f)   sum %8.3f\n",
        s.batch, s.heads, s.length, s.dim, s.window, double{dropout}, name_of(kTypes[i]), forward_ms[i],
        flops / forward_ms[i] / 1e6, backward_ms[i], 2.5 * flops / backward_ms[i] / 1e6,
        forward_ms[i] + backward_ms[i]);
  }
}

struct Decoding {
  Decoding(DType dtype, const Sizes& s)
      : qkv(random_tensor(dtype, {s.batch, 1, s.heads, 3, s.dim}, 1)),
        keys(random_tensor(dtype, {s.batch, s.length, s.heads, 1, s.dim}, 2)),
        values(random_tensor(dtype, keys.shape(), 3)),
        out(dtype, {s.batch, 1, s.heads, s.dim}),
        lengths(static_cast<std::size_t>(s.batch), static_cast<std::int32_t>(s.length - 1)),
        cache{keys, values, {lengths.data(), DType::i32, {s.batch}}} {
    in.qkv = {{qkv, 0, 1}, {keys}, {values}};
    in.scale = 1 / std::sqrt(static_cast<float>(s.dim));
    in.window = s.window;
    in.past = cache.lengths;
  }
  void step(Stream& stream, Arena& scratch) const {
    append_to_cache(stream, cache, unpack_qkv(qkv).k, unpack_qkv(qkv).v);
    attention_forward(stream, scratch, out, {}, in);
  }
  double bytes_read() const {
    return static_cast<double>(keys.tensor().bytes() + values.tensor().bytes()) *
           static_cast<double>(in.keys_in_reach()) / static_cast<double>(keys.shape()[1]);
  }

  Owned qkv, keys, values, out;
  std::vector<std::int32_t> lengths;
  KvCache cache;
  AttentionInput in;
};

void time_decoding(const Sizes& s, int threads) {
  Stream stream(Device::cpu, threads);
  Arena scratch(Device::cpu, "scratch", std::size_t{64} << 20);
  std::vector<Decoding> runs;
  for (DType dtype : kTypes) runs.emplace_back(dtype, s);
  std::vector<std::function<void()>> steps;
  for (const Decoding& run : runs) steps.emplace_back([&] { run.step(stream, scratch); });
  const std::vector<double> ms = fastest_ms(steps);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::printf("B %3ld  H %3ld  S %5ld  D %3ld  window %5ld  %-8s  one token   %8.3f ms (%5.1f GB/s)\n", s.batch,
                s.heads, s.length, s.dim, s.window, name_of(kTypes[i]), ms[i], runs[i].bytes_read() / ms[i] / 1e6);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (names_device(argc, argv))
    return run_on_device(argc, argv, {"attention"},
                         [](DeviceBench& bench, const std::string&) { bench_attention(bench); });
  int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  for (float dropout : {0.0f, 0.1f}) {
    for (const Sizes& s : {Sizes{.batch = 1, .heads = 12, .length = 1024, .dim = 64},
                           {.batch = 1, .heads = 12, .length = 1024, .dim = 64, .window = 256},
                           {.batch = 1, .heads = 2, .length = 8192, .dim = 64, .window = 1024},
                           {.batch = 8, .heads = 4, .length = 128, .dim = 32},
                           {.batch = 8, .heads = 6, .length = 256, .dim = 64}})
      time_training(s, dropout, threads);
  }
  for (const Sizes& s : {Sizes{.batch = 1, .heads = 12, .length = 1024, .dim = 64},
                         {.batch = 8, .heads = 12, .length = 1024, .dim = 64},
                         {.batch = 1, .heads = 12, .length = 8192, .dim = 64, .window = 1024}})
    time_decoding(s, threads);
}
