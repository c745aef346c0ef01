#include "tests/bench/kernels_on_device.h"

#include "base/str.h"
#include "kernels/cross_entropy.h"
#include "kernels/digest.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/layernorm.h"
#include "kernels/residual.h"
#include "kernels/rmsnorm.h"

namespace mtl::test {

namespace {

using Operands = DeviceBench::Operands;

constexpr DType kCompute = DType::bf16;

void bench_memory(DeviceBench& bench) {
  bench.events();
  for (const std::int64_t megabytes : {25, 50, 100, 200, 1024}) {
    const std::int64_t bytes = bench.tiny() ? megabytes * 100 : megabytes * 1'000'000;
    const std::string size = format("%7.1f MB", 1e-6 * double(bytes));
    const Shape all{bytes / 4}, half{bytes / 8};
    const Operands x = bench.random(DType::f32, all), y = bench.zeros(DType::f32, half);
    const Operands found = bench.zeros(DType::i32, {1}), sum = bench.zeros(DType::i64, {1});
    bench.run("copy, half of it read, half written  " + size,
              [&](Stream& s, Arena&, int i) { copy(s, y[i], x[i].flat(0, half[0])); });
    bench.run("read only, find_nonfinite            " + size,
              [&](Stream& s, Arena&, int i) { find_nonfinite(s, found[i], x[i]); });
    bench.run("read only, digest                    " + size,
              [&](Stream& s, Arena&, int i) { digest(s, sum[i], x[i]); });
    bench.run("write only, fill_zero                " + size, [&](Stream& s, Arena&, int i) { fill_zero(s, x[i]); });
    bench.clear();
  }
}

void bench_rows(DeviceBench& bench, std::int64_t rows, std::int64_t width) {
  const Shape shape{rows, width};
  const Operands x = bench.random(kCompute, shape), y = bench.zeros(kCompute, shape),
                 branch = bench.random(kCompute, shape), sum = bench.zeros(kCompute, shape),
                 gamma = bench.random(kCompute, {width}), beta = bench.random(kCompute, {width}),
                 mean = bench.zeros(DType::f32, {rows}), rstd = bench.zeros(DType::f32, {rows}),
                 dgamma = bench.zeros(DType::f32, {width}), dbeta = bench.zeros(DType::f32, {width}),
                 dbias = bench.zeros(DType::f32, {width});
  const std::string size = cat(rows, " x ", width, " bf16");
  bench.run("layernorm forward              " + size, [&](Stream& s, Arena&, int i) {
    layernorm_forward(s, y[i], {x[i], mean[i], rstd[i]}, gamma[i], beta[i], 1e-5f);
  });
  bench.run("layernorm forward with a sum   " + size, [&](Stream& s, Arena&, int i) {
    layernorm_forward(s, y[i], {sum[i], mean[i], rstd[i]}, gamma[i], beta[i], 1e-5f,
                      {x[i], branch[i], beta[i], {}, {}});
  });
  // As in a block, the gradient of the skip connection is added, and the result takes its place.
  bench.run("layernorm backward             " + size, [&](Stream& s, Arena& scratch, int i) {
    layernorm_backward(s, scratch, {sum[i], sum[i]}, {dgamma[i]}, {dbeta[i]}, branch[i], {x[i], mean[i], rstd[i]},
                       gamma[i]);
  });
  bench.run("layernorm backward with dbias  " + size, [&](Stream& s, Arena& scratch, int i) {
    layernorm_backward(s, scratch, {sum[i], sum[i], {dbias[i]}}, {dgamma[i]}, {dbeta[i]}, branch[i],
                       {x[i], mean[i], rstd[i]}, gamma[i]);
  });
  bench.run("rmsnorm forward                " + size, [&](Stream& s, Arena&, int i) {
    rmsnorm_forward(s, y[i], {x[i], rstd[i]}, gamma[i], 1e-5f);
  });
  bench.run("rmsnorm forward with a sum     " + size, [&](Stream& s, Arena&, int i) {
    rmsnorm_forward(s, y[i], {sum[i], rstd[i]}, gamma[i], 1e-5f, {x[i], branch[i], {}, {}, {}});
  });
  bench.run("rmsnorm backward               " + size, [&](Stream& s, Arena& scratch, int i) {
    rmsnorm_backward(s, scratch, {sum[i], sum[i]}, {dgamma[i]}, branch[i], {x[i], rstd[i]}, gamma[i]);
  });
  bench.run("residual forward               " + size, [&](Stream& s, Arena&, int i) {
    residual_forward(s, y[i], {x[i], branch[i], beta[i], {}, {}});
  });
  bench.run("residual backward              " + size, [&](Stream& s, Arena& scratch, int i) {
    residual_backward(s, scratch, y[i], {dbeta[i]}, branch[i], {}, {});
  });
  bench.clear();
}

void bench_cross_entropy(DeviceBench& bench, std::int64_t rows, std::int64_t vocab) {
  const Operands logits = bench.random(DType::f32, {rows, vocab}), dlogits = bench.zeros(kCompute, {rows, vocab}),
                 labels = bench.zeros(DType::i32, {rows}), weights = bench.random(DType::f32, {rows}),
                 losses = bench.zeros(DType::f32, {rows});
  bench.run(cat("cross_entropy forward and backward  ", rows, " x ", vocab, " f32"), [&](Stream& s, Arena&, int i) {
    cross_entropy_forward_backward(s, losses[i], dlogits[i], logits[i], labels[i], weights[i], vocab);
  });
  bench.clear();
}

/// Times the products of a linear layer y = x W^T + b, where x has `rows` rows and W is (out, in).
void bench_linear(DeviceBench& bench, const std::string& name, std::int64_t rows, std::int64_t out, std::int64_t in,
                  DType result = kCompute, Epilogue::Act act = Epilogue::Act::none) {
  const Operands x = bench.random(kCompute, {rows, in}), w = bench.random(kCompute, {out, in}),
                 b = bench.random(result, {out}), y = bench.zeros(result, {rows, out}),
                 aux = bench.zeros(result, {rows, out}), dy = bench.random(kCompute, {rows, out}),
                 dx = bench.zeros(kCompute, {rows, in}), dw = bench.zeros(DType::f32, {out, in});
  const std::string size = cat(" ", rows, " x ", out, " x ", in);
  bench.run("gemm " + name + " forward" + size, [&](Stream& s, Arena& scratch, int i) {
    Epilogue epilogue{.act = act};
    if (result == kCompute) epilogue.bias = b[i];  // logits have none
    if (act == Epilogue::Act::forward) epilogue.aux = aux[i];
    gemm(s, scratch, y[i], {x[i]}, transposed(w[i]), GradMode::overwrite, epilogue);
  });
  bench.run("gemm " + name + " dx" + size,
            [&](Stream& s, Arena& scratch, int i) { gemm(s, scratch, dx[i], {dy[i]}, {w[i]}); });
  bench.run("gemm " + name + " dw" + size, [&](Stream& s, Arena& scratch, int i) {
    gemm(s, scratch, dw[i], transposed(dy[i]), {x[i]}, GradMode::accumulate);
  });
  bench.clear();
}

struct Model {
  const char* name;
  std::int64_t rows, width, qkv, hidden, logit_rows, vocab;
};

void bench_model(DeviceBench& bench, const Model& m) {
  const std::string name = m.name;
  bench_linear(bench, name + " qkv", m.rows, m.qkv, m.width);
  bench_linear(bench, name + " out", m.rows, m.width, m.width);
  bench_linear(bench, name + " up", m.rows, m.hidden, m.width, kCompute, Epilogue::Act::forward);
  bench_linear(bench, name + " down", m.rows, m.width, m.hidden);
  bench_linear(bench, name + " logits", m.logit_rows, m.vocab, m.width, DType::f32);
}

void bench_gemm(DeviceBench& bench) {
  constexpr Model kModels[] = {{"124m", 32768, 768, 2304, 3072, 3648, 50304},
                               {"355m", 16384, 1024, 3072, 4096, 3280, 50304},
                               {"1558m", 8192, 1600, 4800, 6400, 2736, 50304},
                               {"llama-1b", 8192, 2048, 3072, 8192, 2048, 128256}};
  if (bench.tiny()) return bench_model(bench, {"tiny", 16, 64, 192, 256, 16, 512});
  for (const Model& model : kModels) bench_model(bench, model);
}

}  // namespace

void bench_group(DeviceBench& bench, const std::string& group) {
  if (group == "memory") bench_memory(bench);
  if (group == "gemm") bench_gemm(bench);
  if (group == "rows") {
    for (const std::int64_t width : {768, 1024, 1600, 2048, 4096})
      bench_rows(bench, (bench.tiny() ? 8192 : 25'000'000) / width, width);
  }
  if (group == "cross_entropy") {
    for (const std::int64_t vocab : {50304, 128256}) bench_cross_entropy(bench, bench.tiny() ? 1 : 3648, vocab);
  }
}

}  // namespace mtl::test
