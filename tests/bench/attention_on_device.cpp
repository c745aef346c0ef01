#include "tests/bench/attention_on_device.h"

#include <cmath>
#include <cstdio>

#include "base/str.h"
#include "kernels/attention.h"

namespace mtl::test {

namespace {

using Operands = DeviceBench::Operands;

void bench_sizes(DeviceBench& bench, bool kernels, std::int64_t batch, std::int64_t length, std::int64_t heads,
                 std::int64_t dim) {
  const Shape packed{batch, length, heads, 3, dim}, rows{batch, length, heads, dim};
  const Operands qkv = bench.random(DType::bf16, packed), dqkv = bench.zeros(DType::bf16, packed),
                 out = bench.zeros(DType::bf16, rows), dout = bench.random(DType::bf16, rows),
                 logsumexp = bench.zeros(DType::f32, {batch, heads, length});
  const auto input = [&](int i) {
    AttentionInput in;
    in.qkv = unpack_qkv(qkv[i]);
    in.scale = 1 / std::sqrt(static_cast<float>(dim));
    in.rows.rows_per_sequence = length;
    return in;
  };
  const auto forward = [&](Stream& s, Arena& scratch, int i) {
    attention_forward(s, scratch, out[i], logsumexp[i], input(i));
  };
  const auto backward = [&](Stream& s, Arena& scratch, int i) {
    attention_backward(s, scratch, unpack_qkv(dqkv[i]), dout[i], out[i], logsumexp[i], input(i));
  };
  const std::string size = format("B %2ld  T %4ld  H %2ld  D %3ld  bf16", batch, length, heads, dim);
  if (kernels) {
    bench.kernels("attention forward         " + size, forward);
    bench.kernels("attention backward        " + size, backward);
    return bench.clear();
  }
  if (bench.stream().device() == Device::cuda) {
    bench.stream().set_attention_backend(AttentionBackend::fused);
    try {
      bench.run("attention forward, cuDNN  " + size, forward);
    } catch (const Error& error) {
      std::printf("attention forward, cuDNN  %s  not measured: %s\n", size.c_str(), error.what());
    }
    bench.stream().set_attention_backend(AttentionBackend::flash);
  }
  bench.run("attention forward         " + size, forward);
  bench.run("attention backward        " + size, backward);
  bench.clear();
}

}  // namespace

void bench_attention(DeviceBench& bench) {
  const std::int64_t tokens = bench.tiny() ? 64 : 16384, width = bench.tiny() ? 128 : 1024,
                     shortest = bench.tiny() ? 32 : 512, longest = bench.tiny() ? 64 : 8192;
  for (const bool kernels : {false, true}) {  // CUPTI may slow down what runs after it has started
    for (const std::int64_t dim : {64, 128}) {
      for (std::int64_t length = shortest; length <= longest; length *= 2)
        bench_sizes(bench, kernels, tokens / length, length, width / dim, dim);
    }
  }
}

}  // namespace mtl::test
