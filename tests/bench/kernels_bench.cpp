// Times the operators on this machine: mtl_bench_kernels [THREADS [NAME]]. Calls each operator repeatedly on random
// data and prints one line per operator and shape: the median time, the best time, and the GFLOP/s or GB/s at the best
// time, using the operator's own count. If other processes load the machine, only the best time is meaningful. Set
// ONEDNN_MAX_CPU_ISA=AVX512_CORE to run bf16 GEMMs as on a CPU without AVX-512 BF16.
//   mtl_bench_kernels cuda|cpu [all|GROUP [tiny]]
// times a training step's operators as a GPU runs them instead (kernels_on_device.h).
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>

#include "base/instruction_set.h"
#include "kernels/activation.h"
#include "kernels/cross_entropy.h"
#include "kernels/digest.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/gemm.h"
#include "kernels/head_norm.h"
#include "kernels/layernorm.h"
#include "kernels/residual.h"
#include "kernels/rmsnorm.h"
#include "kernels/rotary.h"
#include "kernels/update_rules.h"
#include "tests/bench/kernels_on_device.h"
#include "tests/kernels/reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

class Bench {
 public:
  Bench(int threads, std::string only) : stream_(Device::cpu, threads), only_(std::move(only)) {}

  /// Runs `call` for about half a second and prints the result.
  void run(const std::string& name, const std::function<void(Stream&)>& call) {
    if (name.find(only_) == std::string::npos) return;
    call(stream_);
    stream_.reset_counters();
    call(stream_);
    const Counters work = stream_.counters();
    std::vector<double> seconds;
    for (double total = 0; seconds.size() < 5 || (total < 0.5 && seconds.size() < 5000); total += seconds.back()) {
      const auto begin = std::chrono::steady_clock::now();
      call(stream_);
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    std::sort(seconds.begin(), seconds.end());
    const double best = seconds.front();
    const bool computes = work.flops > 0;
    std::printf("%-52s %9.4f ms, best %9.4f ms %8.1f %s\n", name.c_str(), 1e3 * seconds[seconds.size() / 2], 1e3 * best,
                1e-9 * (computes ? work.flops : work.bytes) / best, computes ? "GFLOP/s" : "GB/s");
    std::fflush(stdout);
  }

 private:
  Stream stream_;
  std::string only_;
};

/// Returns the suffix that marks a dtype in a line's name. It is empty for fp32.
std::string name_of_type(DType type) { return type == DType::f32 ? "" : cat(" ", name_of(type)); }

/// Times the GEMMs for a linear layer y = x W^T + b, where x has `rows` rows and W is (out, in). Parameter gradients
/// are fp32.
void bench_linear(Bench& bench, std::int64_t rows, std::int64_t out, std::int64_t in, DType type = DType::f32) {
  Owned x = random_tensor(type, {rows, in}, 1), w = random_tensor(type, {out, in}, 2, 0.02),
        b = random_tensor(type, {out}, 3);
  Owned y(type, {rows, out}), aux(type, {rows, out}), dy = random_tensor(type, {rows, out}, 4), dx(type, {rows, in}),
                                                      dw({out, in}), db({out});
  Owned pre = random_tensor(type, {rows, in}, 5);
  Arena scratch(Device::cpu, "scratch", 16 << 20);
  const std::string size = cat(rows, " x ", out, " x ", in, name_of_type(type));
  bench.run("gemm forward, bias           " + size,
            [&](Stream& s) { gemm(s, scratch, y, {x}, transposed(w), GradMode::overwrite, {.bias = b}); });
  bench.run("gemm forward, bias, gelu     " + size, [&](Stream& s) {
    gemm(s, scratch, y, {x}, transposed(w), GradMode::overwrite,
         {.bias = b, .act = Epilogue::Act::forward, .aux = aux});
  });
  bench.run("gemm forward                 " + size, [&](Stream& s) { gemm(s, scratch, y, {x}, transposed(w)); });
  bench.run("gemm dx                      " + size, [&](Stream& s) { gemm(s, scratch, dx, {dy}, {w}); });
  bench.run("gemm dx, dgelu               " + size, [&](Stream& s) {
    gemm(s, scratch, dx, {dy}, {w}, GradMode::overwrite, {.act = Epilogue::Act::backward, .aux = pre});
  });
  bench.run("gemm dw                      " + size,
            [&](Stream& s) { gemm(s, scratch, dw, transposed(dy), {x}, GradMode::accumulate); });
  bench.run("gemm dw, dbias               " + size, [&](Stream& s) {
    gemm(s, scratch, dw, transposed(dy), {x}, GradMode::accumulate, {.dbias = {db, GradMode::accumulate}});
  });
}

void bench_decoding(Bench& bench, std::int64_t out, std::int64_t in, DType type = DType::f32) {
  Arena scratch(Device::cpu, "scratch", 0);
  for (std::int64_t rows : {1, 2, 4, 8}) {
    Owned x = random_tensor(type, {rows, in}, 1), w = random_tensor(type, {out, in}, 2, 0.02), y(type, {rows, out});
    bench.run(cat("gemm decoding                ", rows, " x ", out, " x ", in, name_of_type(type)),
              [&](Stream& s) { gemm(s, scratch, y, {x}, transposed(w)); });
  }
}

void bench_cross_entropy(Bench& bench, std::int64_t rows, std::int64_t vocab) {
  Owned logits = random_tensor({rows, vocab}, 1),
        labels = random_integers({rows}, 0, static_cast<std::int32_t>(vocab), 2);
  Owned stats({rows, 3}), weights = filled({rows}, 1e-3f);
  const std::string size = cat(rows, " x ", vocab);
  bench.run("cross_entropy stats          " + size, [&](Stream& s) {
    cross_entropy_stats(s, stats, logits, labels, {0, vocab});
  });
  bench.run("cross_entropy backward       " + size, [&](Stream& s) {
    cross_entropy_backward(s, logits, logits, stats, labels, weights, {0, vocab});
  });
  Owned losses({rows});
  bench.run("cross_entropy in three passes " + size, [&](Stream& s) {
    cross_entropy_stats(s, stats, logits, labels, {0, vocab});
    cross_entropy_loss(s, losses, stats);
    cross_entropy_backward(s, logits, logits, stats, labels, weights, {0, vocab});
  });
  bench.run("cross_entropy in one pass    " + size,
            [&](Stream& s) { cross_entropy_forward_backward(s, losses, logits, logits, labels, weights, vocab); });
}

void bench_hidden(Bench& bench, std::int64_t samples, std::int64_t length, std::int64_t width) {
  const std::int64_t rows = samples * length;
  const Shape shape{rows, width};
  Arena scratch(Device::cpu, "scratch", 8 << 20);
  std::vector<std::int64_t> sample_numbers(static_cast<std::size_t>(samples));
  const Dropout dropout{0.1f, {1, 2}};
  const RowMap map{Tensor(sample_numbers.data(), DType::i64, {samples}), 0, length};
  Owned x = random_tensor(shape, 1), y(shape), dy = random_tensor(shape, 2), dx(shape), gamma = filled({width}, 1),
        beta({width});
  Owned mean({rows}), rstd({rows}), dgamma({width}), dbeta({width}), dbias({width});
  const LayerNormCache cache{x, mean, rstd};
  const std::string size = cat(samples, " x ", length, " x ", width);
  const GradMode accumulate = GradMode::accumulate;
  bench.run("layernorm forward            " + size,
            [&](Stream& s) { layernorm_forward(s, y, cache, gamma, beta, 1e-5f); });
  bench.run("layernorm backward           " + size, [&](Stream& s) {
    layernorm_backward(s, scratch, {dx, dx}, {dgamma, accumulate}, {dbeta, accumulate}, dy, cache, gamma);
  });
  bench.run("layernorm backward with dbias " + size, [&](Stream& s) {
    layernorm_backward(s, scratch, {dx, dx, {dbias, accumulate}}, {dgamma, accumulate}, {dbeta, accumulate}, dy, cache,
                       gamma);
  });
  const RmsNormCache rms_cache{x, rstd};
  bench.run("rmsnorm forward              " + size, [&](Stream& s) { rmsnorm_forward(s, y, rms_cache, gamma, 1e-5f); });
  bench.run("rmsnorm backward             " + size, [&](Stream& s) {
    rmsnorm_backward(s, scratch, {dx, dx}, {dgamma, accumulate}, dy, rms_cache, gamma);
  });
  bench.run("residual forward             " + size, [&](Stream& s) { residual_forward(s, y, {x, dy, beta, {}, map}); });
  bench.run("residual, layernorm forward  " + size, [&](Stream& s) {
    residual_forward(s, dx, {x, dy, beta, {}, map});
    layernorm_forward(s, y, {dx, mean, rstd}, gamma, beta, 1e-5f);
  });
  bench.run("residual in layernorm forward " + size, [&](Stream& s) {
    layernorm_forward(s, y, {dx, mean, rstd}, gamma, beta, 1e-5f, {x, dy, beta, {}, map});
  });
  bench.run("residual forward, dropout    " + size, [&](Stream& s) {
    residual_forward(s, y, {x, dy, beta, dropout, map});
  });
  bench.run("residual backward, dropout   " + size, [&](Stream& s) {
    residual_backward(s, scratch, dx, {dbeta, accumulate}, dy, dropout, map);
  });
  Owned embedding = random_tensor({5000, width}, 3), positions = random_tensor({length, width}, 4);
  Owned tokens = random_integers({rows}, 0, 5000, 5),
        position_ids = random_integers({rows}, 0, static_cast<std::int32_t>(length), 6);
  bench.run("embedding forward            " + size, [&](Stream& s) {
    embedding_forward(s, y, tokens, 0, embedding);
    positions_forward(s, y, position_ids, positions, {}, map);
  });
  bench.run("embedding backward           " + size, [&](Stream& s) {
    positions_backward(s, scratch, {positions, accumulate}, dy, position_ids, {}, map);
    embedding_backward(s, scratch, {embedding, accumulate}, dy, tokens, 0);
  });
}

void bench_gated(Bench& bench, std::int64_t rows, std::int64_t width) {
  Owned pre = random_tensor({rows, 2 * width}, 1), out({rows, width}), dout = random_tensor({rows, width}, 2),
        dpre({rows, 2 * width});
  const std::string size = cat(rows, " x ", width);
  bench.run("swiglu forward               " + size, [&](Stream& s) { gated_forward(s, out, pre, Activation::silu); });
  bench.run("swiglu backward              " + size,
            [&](Stream& s) { gated_backward(s, dpre, dout, pre, Activation::silu); });
}

/// Times rotating packed queries and keys: all heads in each group except the last.
void bench_rotary(Bench& bench, std::int64_t rows, std::int64_t groups, std::int64_t heads, std::int64_t dim) {
  Owned packed = random_tensor({1, rows, groups, heads, dim}, 1),
        positions = random_integers({rows}, 0, static_cast<std::int32_t>(rows), 2), angles({rows, 2, dim / 2});
  RotaryFrequencies frequencies{.pairs = static_cast<int>(dim / 2)};
  for (int i = 0; i < frequencies.pairs; ++i)
    frequencies.values[static_cast<std::size_t>(i)] = std::pow(10000.0, -double(i) / frequencies.pairs);
  const std::string size = cat(rows, " x ", groups, " x ", heads, " x ", dim);
  bench.run("rotary angles                " + size,
            [&](Stream& s) { rotary_angles(s, angles, positions, frequencies); });
  for (const bool interleaved : {false, true}) {
    bench.run((interleaved ? "rotary interleaved           " : "rotary halves                ") + size, [&](Stream& s) {
      rotary_forward(s, {packed, 0, heads - 1}, angles, interleaved);
    });
  }
}

/// Times normalizing the queries in a packed (B, T, G, R + 2, D) tensor, as in QK-norm.
void bench_head_norm(Bench& bench, const Shape& packed) {
  const std::int64_t dim = packed[4], count = packed[3] - 2;
  Arena scratch(Device::cpu, "scratch", 8 << 20);
  Owned x = random_tensor(packed, 1), y(packed), dy = random_tensor(packed, 2), dx(packed), gamma = filled({dim}, 1);
  const HeadSlice from{x, 0, count};
  Owned rstd(from.heads()), dgamma({dim});
  bench.run("head_norm forward            " + packed.text(), [&](Stream& s) {
    head_norm_forward(s, {y, 0, count}, rstd, from, gamma, 1e-6f);
  });
  bench.run("head_norm backward           " + packed.text(), [&](Stream& s) {
    head_norm_backward(s, scratch, {dx, 0, count}, {dgamma, GradMode::accumulate}, {dy, 0, count}, from, rstd, gamma);
  });
}

void bench_parameters(Bench& bench, std::int64_t n) {
  Owned p = random_tensor({n}, 1), grad = random_tensor({n}, 2, 1e-3), m({n}), v({n}), sum(DType::f64, {1}),
        count(DType::i64, {1});
  Arena scratch(Device::cpu, "scratch", 1 << 20);
  StepState state{{.step = 10, .lr = 1e-4, .weight_decay = 0.1}, {}};
  state.factors[0] = adamw_factors(state, {});
  bench.run(cat("adamw                        ", n), [&](Stream& s) { adamw_step(s, {p, grad, {m, v}}, {}, &state); });
  bench.run(cat("sum_of_squares               ", n), [&](Stream& s) { sum_of_squares(s, scratch, sum, {grad}); });
  bench.run(cat("digest                       ", n), [&](Stream& s) { digest(s, count, grad); });
  bench.run(cat("fill_zero                    ", n), [&](Stream& s) { fill_zero(s, grad); });
}

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(": ") + 2);
  }
  return "unknown CPU";
}

}  // namespace

int main(int argc, char** argv) {
  if (names_device(argc, argv))
    return run_on_device(argc, argv, {std::begin(kDeviceGroups), std::end(kDeviceGroups)}, bench_group);
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  Bench bench(threads, argc > 2 ? argv[2] : "");
  std::printf("%s, %s, %d threads\n", cpu_name().c_str(), name_of(best_instruction_set()), threads);
  bench_linear(bench, 1024, 3072, 768);
  bench_linear(bench, 1024, 768, 3072);
  bench_linear(bench, 1024, 512, 128);
  bench_linear(bench, 64, 50304, 768);
  bench_decoding(bench, 3072, 768);
  bench_decoding(bench, 50257, 768);
  for (DType type : {DType::bf16, DType::f16}) {
    bench_linear(bench, 1024, 3072, 768, type);
    bench_linear(bench, 1024, 768, 3072, type);
    bench_linear(bench, 1024, 512, 128, type);
    bench_linear(bench, 64, 50304, 768, type);
    bench_decoding(bench, 3072, 768, type);
    bench_decoding(bench, 50257, 768, type);
  }
  bench_cross_entropy(bench, 64, 50257);
  bench_cross_entropy(bench, 256, 50257);
  bench_hidden(bench, 1, 1024, 768);
  bench_hidden(bench, 8, 128, 128);
  bench_gated(bench, 1024, 2048);
  bench_rotary(bench, 1024, 4, 5, 64);
  bench_head_norm(bench, {1, 1024, 3, 6, 64});
  bench_parameters(bench, 100000);
  bench_parameters(bench, 124439808 / 4);
  return 0;
}
