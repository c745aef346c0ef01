// LM head: the output layer with the loss, computed in chunks of rows.
#include "nn/lm_head.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/relative_error.h"

using namespace mtl;

namespace {

std::vector<float> random_values(std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& value : out) value = normal(generator);
  return out;
}

/// Operands for an LM head whose weight has `padded` rows. The first `vocab` rows are real.
struct Problem {
  std::int64_t rows, vocab, padded, width;
  std::vector<float> x = random_values(rows * width, 1), table = random_values(padded * width, 2);
  std::vector<float> weights = random_values(rows, 3);
  std::vector<std::int32_t> labels = std::vector<std::int32_t>(static_cast<std::size_t>(rows));

  Problem(std::int64_t n, std::int64_t v, std::int64_t padded_v, std::int64_t c)
      : rows(n), vocab(v), padded(padded_v), width(c) {
    std::mt19937 generator(4);
    for (std::int32_t& label : labels) label = static_cast<std::int32_t>(generator() % static_cast<unsigned>(v));
  }
};

/// Results, and the scratch arena's peak.
struct Result {
  std::vector<float> losses, dx, dtable;
  std::size_t scratch = 0;
};

/// Computes losses and gradients, `at_once` rows per call.
Result compute(Problem& p, std::int64_t at_once) {
  Result out;
  out.losses.resize(p.labels.size());
  out.dx.resize(p.x.size());
  out.dtable.resize(p.table.size());
  GradState grad{Tensor(out.dtable.data(), DType::f32, {p.padded, p.width})};
  LmHead head;
  head.vocab = p.vocab;
  head.table.value = Tensor(p.table.data(), DType::f32, {p.padded, p.width});
  head.table.grad = &grad;
  Stream stream(Device::cpu, 2);
  Arena slot(Device::cpu, "slot", 0), scratch(Device::cpu, "scratch", 256 << 20);
  const ProcessGroups groups;
  Ctx ctx{stream, &slot, scratch, groups, true};
  const Tensor x(p.x.data(), DType::f32, {p.rows, p.width}), dx(out.dx.data(), DType::f32, x.shape());
  for (std::int64_t row = 0; row < p.rows; row += at_once) {
    const std::int64_t count = std::min(at_once, p.rows - row);
    Batch batch;
    batch.labels = Tensor(p.labels.data() + row, DType::i32, {1, count});
    batch.loss_weights = Tensor(p.weights.data() + row, DType::f32, {1, count});
    head.loss_and_gradient(ctx, Tensor(out.losses.data() + row, DType::f32, {count}), dx.rows(row, count),
                           x.rows(row, count), batch);
  }
  out.scratch = scratch.peak();
  return out;
}

struct Reference {
  std::vector<double> losses, dx, dtable;
};

Reference reference(const Problem& p) {
  const auto at = [&](const std::vector<float>& values, std::int64_t row, std::int64_t c) {
    return double{values[static_cast<std::size_t>(row * p.width + c)]};
  };
  Reference out;
  out.dtable.resize(p.table.size());
  std::vector<double> z(static_cast<std::size_t>(p.vocab));
  for (std::int64_t row = 0; row < p.rows; ++row) {
    const auto label = static_cast<std::size_t>(p.labels[static_cast<std::size_t>(row)]);
    double sum = 0;
    for (std::int64_t v = 0; v < p.vocab; ++v) {
      double& logit = z[static_cast<std::size_t>(v)] = 0;
      for (std::int64_t c = 0; c < p.width; ++c) logit += at(p.x, row, c) * at(p.table, v, c);
      sum += std::exp(logit);
    }
    out.losses.push_back(std::log(sum) - z[label]);
    std::vector<double> dx(static_cast<std::size_t>(p.width));
    for (std::int64_t v = 0; v < p.vocab; ++v) {
      const auto number = static_cast<std::size_t>(v);
      const double dz =
          double{p.weights[static_cast<std::size_t>(row)]} * (std::exp(z[number]) / sum - (number == label ? 1 : 0));
      for (std::int64_t c = 0; c < p.width; ++c) {
        dx[static_cast<std::size_t>(c)] += dz * at(p.table, v, c);
        out.dtable[static_cast<std::size_t>(v * p.width + c)] += dz * at(p.x, row, c);
      }
    }
    out.dx.insert(out.dx.end(), dx.begin(), dx.end());
  }
  return out;
}

}  // namespace

TEST_CASE("the LM head in chunks of rows equals the fp64 reference, and calls per chunk bit for bit") {
  Problem p(72, 524000, 524288, 4);  // 32 rows of logits use 64 MiB
  const Result chunks = compute(p, p.rows), calls = compute(p, 32);
  CHECK(chunks.scratch < std::size_t{80} << 20);  // instead of 144 MiB
  CHECK(chunks.losses == calls.losses);
  CHECK(chunks.dx == calls.dx);
  CHECK(chunks.dtable == calls.dtable);
  const Reference expected = reference(p);
  CHECK(test::rms_relative(chunks.losses.data(), expected.losses) < 1e-6);
  CHECK(test::rms_relative(chunks.dx.data(), expected.dx) < 1e-5);
  CHECK(test::rms_relative(chunks.dtable.data(), expected.dtable) < 1e-5);
}

TEST_CASE("the LM head's pieces on a GPU are equal, and large enough to hide the table's gradient") {
  const auto rows_of = [](std::int64_t rows, std::int64_t vocab, std::int64_t width) {
    return LmHead::piece_rows(Device::cuda, rows, vocab, width);
  };
  // The products take as long as their operations at 989 TFLOP/s, and less time at 3350 GB/s: GPT-2 124M and 1558M,
  // Llama 3 8B.
  struct Table {
    std::int64_t vocab, width;
  };
  for (const Table& t : {Table{50304, 768}, Table{50304, 1600}, Table{128256, 4096}}) {
    const double rows = double(rows_of(1 << 20, t.vocab, t.width)), V = double(t.vocab), C = double(t.width);
    CAPTURE(rows);
    CHECK(2 * rows * V * C / 989e12 > (8 * V * C + 2 * rows * V + 2 * rows * C) / 3.35e12);
    CHECK(4 * rows * V <= double(1 << 30));
  }
  CHECK(rows_of(32768, 50304, 768) == 3648);  // 9 pieces of at most 3840
  CHECK(rows_of(3840, 50304, 768) == 3840);
  CHECK(rows_of(3841, 50304, 768) == 1936);
  CHECK(rows_of(7, 50304, 768) == 7);
  CHECK(rows_of(0, 50304, 768) == 0);
  CHECK(rows_of(1 << 20, 50304, 256) == 4096);    // never bound by operations
  CHECK(rows_of(1 << 20, 1 << 24, 4096) == 128);  // 8 GiB of logits: one tile of rows
  CHECK(LmHead::piece_rows(Device::cpu, 1 << 20, 50304, 768) == 320);
  CHECK(LmHead::piece_rows(Device::cpu, 1 << 20, 1 << 24, 768) == 16);
}

TEST_CASE("the LM head's memory is bounded on every device, with a vocabulary of 128k and 8192 tokens") {
  constexpr std::int64_t kRows = 8192, kVocab = 131072, kWidth = 64;
  for (const Device target : {Device::cpu, Device::cuda}) {
    for (const auto& [dtype, logits_dtype] :
         {std::pair(DType::f32, DType::f32), {DType::bf16, DType::f32}, {DType::bf16, DType::bf16}}) {
      for (const bool trains : {false, true}) {
        CAPTURE(std::string(name_of(dtype)));
        CAPTURE(std::string(name_of(logits_dtype)));
        CAPTURE(trains);
        Stream stream(Device::meta, 1, target);
        Arena slot(Device::meta, "slot", 0), scratch(Device::meta, "scratch", 0);
        const ProcessGroups groups;
        Ctx ctx{stream, &slot, scratch, groups, trains};
        GradState grad{Tensor(nullptr, DType::f32, {kVocab, kWidth})};
        LmHead head;
        head.vocab = kVocab;
        head.logits_dtype = logits_dtype;
        head.table.value = Tensor(nullptr, dtype, {kVocab, kWidth});
        head.table.grad = &grad;
        Batch batch;
        batch.labels = Tensor(nullptr, DType::i32, {1, kRows});
        batch.loss_weights = Tensor(nullptr, DType::f32, {1, kRows});
        const Tensor losses(nullptr, DType::f32, {kRows}), x(nullptr, dtype, {kRows, kWidth});
        if (trains)
          head.loss_and_gradient(ctx, losses, x, x, batch);
        else
          head.loss(ctx, losses, x, batch);
        const std::size_t fp32 = std::size_t{target == Device::cpu ? 64u : 1024u} << 20;
        const std::size_t logits = logits_dtype == DType::f32 ? fp32 : fp32 / 2;
        const std::size_t copies = trains && dtype != logits_dtype ? fp32 / 2 : 0;  // dlogits
        CHECK(scratch.peak() >= logits + copies);
        CHECK(scratch.peak() < logits + copies + (std::size_t{64} << 20));  // matmul workspace
      }
    }
  }
}
