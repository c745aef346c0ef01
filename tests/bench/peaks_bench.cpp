// Measures the peak rates that GPU operators are compared with: mtl_bench_peaks cuda|cpu ROWS. Prints JSON with the
// device, the GB/s read and written by a large copy, and the TFLOP/s reached when multiplying square bf16 matrices with
// ROWS rows. Each rate is the best of 20.
#include <cstdio>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/str.h"
#include "device/copy.h"
#include "device/cuda_device.h"
#include "device/event.h"
#include "device/memory.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"

using namespace mtl;

namespace {

constexpr int kRounds = 20;

/// Returns the fastest of kRounds calls, in milliseconds.
template <class Call>
double best_ms(Stream& stream, const Call& call) {
  double best = 0;
  for (int round = 0; round <= kRounds; ++round) {  // the first round warms up
    Event begin(stream.device(), Event::Kind::time), end(stream.device(), Event::Kind::time);
    begin.record(stream);
    call();
    end.record(stream);
    end.wait();
    const double ms = end.milliseconds_since(begin);
    if (round == 1 || (round > 1 && ms < best)) best = ms;
  }
  return best;
}

void fill(Stream& stream, const Tensor& tensor) {  // not zeros, which draw less power and multiply faster
  std::vector<std::byte> values(tensor.bytes());
  std::uint32_t state = 1;
  for (std::size_t i = 0; i + 1 < values.size(); i += 2) {
    state = state * 1664525 + 1013904223;
    values[i] = static_cast<std::byte>(state >> 24);
    values[i + 1] = static_cast<std::byte>(0x3b | (state >> 16 & 0x80));  // magnitude 2^-9 to 2^-7, either sign
  }
  copy_from_host(stream, tensor, std::span<const std::byte>(values));
}

double copy_gbs(Stream& stream, std::int64_t bytes) {
  Buffer memory(stream.device(), 2 * static_cast<std::size_t>(bytes));
  const Tensor from = memory.tensor(DType::f32, {bytes / 4}), to = memory.tensor(DType::f32, {bytes / 4}, from.bytes());
  return 2e-6 * static_cast<double>(bytes) / best_ms(stream, [&] { copy(stream, to, from); });
}

double gemm_tflops(Stream& stream, std::int64_t rows) {
  const std::size_t bytes = 2 * static_cast<std::size_t>(rows * rows);
  Buffer memory(stream.device(), 3 * bytes);
  const Tensor a = memory.tensor(DType::bf16, {rows, rows}), b = memory.tensor(DType::bf16, {rows, rows}, bytes),
               c = memory.tensor(DType::bf16, {rows, rows}, 2 * bytes);
  fill(stream, a);
  fill(stream, b);
  Stream meta(Device::meta, stream.threads(), stream.device());
  Arena plan(Device::meta, "scratch", 0);
  gemm(meta, plan, c, {a}, transposed(b));
  Arena scratch(stream.device(), "scratch", plan.peak());
  const double flops = 2.0 * static_cast<double>(rows) * static_cast<double>(rows) * static_cast<double>(rows);
  return 1e-9 * flops / best_ms(stream, [&] { gemm(stream, scratch, c, {a}, transposed(b)); });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string device = argc > 1 ? argv[1] : "";
  const std::int64_t rows = argc > 2 ? parse_int(argv[2]).value_or(0) : 0;
  if ((device != "cuda" && device != "cpu") || rows < 64) {
    std::fprintf(stderr, "usage: mtl_bench_peaks cuda|cpu ROWS\n");
    return 2;
  }
  const CudaDevice gpu = find_cuda_device();
  if (device == "cuda" && !gpu.usable()) {
    std::fprintf(stderr, "cannot measure a GPU: %s\n", gpu.why_not.c_str());
    return 1;
  }
  try {
    const bool on_gpu = device == "cuda";
    Stream stream(on_gpu ? Device::cuda : Device::cpu, 2);
    std::printf("{\"name\": \"%s\", \"copy_gb_per_s\": %.1f, \"gemm_tflops\": %.4g}\n",
                on_gpu ? gpu.name.c_str() : "CPU", copy_gbs(stream, std::int64_t{1} << (on_gpu ? 30 : 25)),
                gemm_tflops(stream, rows));
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
