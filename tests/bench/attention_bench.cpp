// Time of attention on this machine: forward, backward and one decoded token, the fastest of many runs.
//   mtl_bench_attention [THREADS]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/attention.h"
#include "tests/kernels/reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

struct Sizes {
  std::int64_t batch, heads, length, dim, window = 0;
};

/// Milliseconds of the fastest of as many runs as fit in a second (at least 5): what others on the machine disturb
/// least.
template <class Work>
double fastest_ms(const Work& work) {
  using Clock = std::chrono::steady_clock;
  auto begin = Clock::now();
  double fastest = 1e30;
  for (int runs = 0; runs < 5 || Clock::now() - begin < std::chrono::seconds(1); ++runs) {
    auto start = Clock::now();
    work();
    fastest = std::min(fastest, std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  return fastest;
}

void time_training(const Sizes& s, float dropout, int threads) {
  Shape packed{s.batch, s.length, s.heads, 3, s.dim}, rows{s.batch, s.length, s.heads, s.dim};
  Owned qkv = random_tensor(packed, 1), dout = random_tensor(rows, 2), dqkv(packed), out(rows),
        logsumexp({s.batch, s.heads, s.length});
  Stream stream(Device::cpu, threads);
  Arena scratch(Device::cpu, "scratch", std::size_t{256} << 20);
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(s.batch));
  AttentionInput in;
  in.qkv = unpack_qkv(qkv);
  in.scale = 1 / std::sqrt(static_cast<float>(s.dim));
  in.window = s.window;
  in.dropout = {dropout, {1, 2}};
  in.rows = {Tensor(numbers.data(), DType::i64, {s.batch}), 0, s.length};
  double forward = fastest_ms([&] { attention_forward(stream, scratch, out, logsumexp, in); });
  stream.reset_counters();
  attention_forward(stream, scratch, out, logsumexp, in);
  double flops = stream.counters().flops;
  double backward =
      fastest_ms([&] { attention_backward(stream, scratch, unpack_qkv(dqkv), dout, out, logsumexp, in); });
  std::printf(
      "B %3lld  H %3lld  T %5lld  D %3lld  window %5lld  dropout %.1f   "
      "forward %8.3f ms (%5.1f GFLOP/s)   backward %8.3f ms (%5.1f)   sum %8.3f\n",
      static_cast<long long>(s.batch), static_cast<long long>(s.heads), static_cast<long long>(s.length),
      static_cast<long long>(s.dim), static_cast<long long>(s.window), double{dropout}, forward, flops / forward / 1e6,
      backward, 2.5 * flops / backward / 1e6, forward + backward);
}

void time_decoding(const Sizes& s, int threads) {
  Shape packed{s.batch, 1, s.heads, 3, s.dim}, rows{s.batch, 1, s.heads, s.dim},
      cached{s.batch, s.length, s.heads, 1, s.dim};
  Owned qkv = random_tensor(packed, 1), keys = random_tensor(cached, 2), values = random_tensor(cached, 3), out(rows);
  std::vector<std::int32_t> lengths(static_cast<std::size_t>(s.batch), static_cast<std::int32_t>(s.length - 1));
  Stream stream(Device::cpu, threads);
  Arena scratch(Device::cpu, "scratch", std::size_t{64} << 20);
  AttentionInput in;
  in.qkv = unpack_qkv(qkv);
  in.scale = 1 / std::sqrt(static_cast<float>(s.dim));
  in.window = s.window;
  KvCache cache{keys, values, {lengths.data(), DType::i32, {s.batch}}};
  const HeadSlice k = in.qkv.k, v = in.qkv.v;
  in.qkv.k = {cache.keys};
  in.qkv.v = {cache.values};
  in.past = cache.lengths;
  double ms = fastest_ms([&] {
    append_to_cache(stream, cache, k, v);
    attention_forward(stream, scratch, out, {}, in);
  });
  const std::int64_t read = in.keys_in_reach();
  double bytes = static_cast<double>(cache.keys.bytes() + cache.values.bytes()) * static_cast<double>(read) /
                 static_cast<double>(s.length);
  std::printf("B %3lld  H %3lld  S %5lld  D %3lld  window %5lld  one token   %8.3f ms (%5.1f GB/s)\n",
              static_cast<long long>(s.batch), static_cast<long long>(s.heads), static_cast<long long>(s.length),
              static_cast<long long>(s.dim), static_cast<long long>(s.window), ms, bytes / ms / 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  for (float dropout : {0.0f, 0.1f}) {
    for (const Sizes& s :
         {Sizes{1, 12, 1024, 64}, {1, 12, 1024, 64, 256}, {1, 2, 8192, 64, 1024}, {8, 4, 128, 32}, {8, 6, 256, 64}})
      time_training(s, dropout, threads);
  }
  for (const Sizes& s : {Sizes{1, 12, 1024, 64}, {8, 12, 1024, 64}, {1, 12, 8192, 64, 1024}}) time_decoding(s, threads);
}
