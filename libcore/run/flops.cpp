#include "run/flops.h"

#include <algorithm>
#include <cmath>

#include "base/console.h"
#include "device/copy.h"
#include "device/measure.h"
#include "device/memory.h"
#include "kernels/gemm.h"
#include "nn/model_params.h"

namespace mtl {

double megatron_flops(const GptConfig& config, std::int64_t padded_vocab, std::int64_t sequences,
                      std::int64_t seq_length) {
  double tokens = double(sequences) * double(seq_length), layers = double(config.num_layers),
         hidden = double(config.hidden_size);
  double query = double(config.head_dim * config.num_heads), key = double(config.head_dim * config.num_query_groups);
  const double products = config.gated_mlp ? 3 : 2;
  double linears = hidden * products * double(config.ffn_hidden_size) * layers +
                   layers * (hidden * (query + 2 * key) + query * hidden);
  return 6 * tokens * (linears + hidden * double(padded_vocab)) + 6 * tokens * double(seq_length) * query * layers;
}

namespace {

double per_token(const GptConfig& config, std::int64_t seq_length, double attention) {
  return 6 * double(parameter_count(config)) +
         attention * double(config.num_layers * config.num_heads * config.head_dim * seq_length);
}

}  // namespace

double flops_per_token_a(const GptConfig& config, std::int64_t seq_length) { return per_token(config, seq_length, 6); }
double flops_per_token_b(const GptConfig& config, std::int64_t seq_length) { return per_token(config, seq_length, 12); }

double measure_peak_tflops(Device device, int threads, DType compute) {
  const bool on_gpu = device == Device::cuda;
  const std::int64_t size = on_gpu ? 4096 : 768;
  const DType dtype = on_gpu ? DType::bf16 : compute;
  const std::size_t bytes = size * size * size_of(dtype);
  Buffer memory(device, 3 * bytes);
  auto matrix = [&](std::size_t number) { return memory.tensor(dtype, {size, size}, number * bytes); };
  Stream stream(device, threads);
  const std::vector<std::byte> numbers(bytes, std::byte{0x3c});  // 0.0115 in fp32 and bf16, 1.06 in fp16
  copy_from_host(stream, matrix(0), std::span(numbers));
  copy_from_host(stream, matrix(1), std::span(numbers));
  Stream dry(Device::meta, threads, device);
  Arena plan(Device::meta, "scratch", 0);
  gemm(dry, plan, matrix(2), {matrix(0)}, {matrix(1)});
  Arena scratch(device, "scratch", plan.peak());
  const double tera_flops = 2e-12 * std::pow(static_cast<double>(size), 3);
  const auto multiply = [&] { gemm(stream, scratch, matrix(2), {matrix(0)}, {matrix(1)}); };
  if (on_gpu) {
    multiply();  // loads cuBLASLt, and measures its algorithms
    return tera_flops / seconds_of(stream, multiply);
  }
  // On a busy machine, most products are interrupted: the best of several is sought, for at most a second.
  double best = 0;
  const double begin = now_seconds();
  for (int count = 0; now_seconds() < begin + (count < 20 ? 1 : 0.08); ++count) {
    const double start = now_seconds();
    multiply();
    best = std::max(best, tera_flops / (now_seconds() - start));
  }
  return best;
}

}  // namespace mtl
