// Attention against its definition in fp64, against finite differences, and against itself: other numbers of threads,
// other cuts of the batch, with and without a cache.
#include "kernels/attention.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

using namespace mtl;

namespace {

struct Case {
  std::int64_t batch, length, groups, heads, dim;  // heads per group
  bool documents = false;
  float dropout = 0;
  std::int64_t all_heads() const { return groups * heads; }
  std::int64_t row() const { return groups * (heads + 2) * dim; }
};

const Case kCases[] = {
    {1, 1, 1, 1, 1},          {2, 3, 1, 1, 3},           {1, 17, 2, 2, 5},         {2, 64, 2, 1, 16},
    {1, 65, 1, 4, 32},        {1, 127, 2, 1, 64, true},  {1, 205, 1, 2, 80},       {2, 50, 3, 1, 8, false, 0.1f},
    {1, 97, 2, 4, 64, true, 0.3f}, {1, 300, 1, 2, 33, true, 0.5f}, {1, 481, 1, 1, 24, true}, {3, 48, 1, 1, 64, false, 0.001f},
};

using Doubles = std::vector<double>;

/// Operands and results of one case, in memory of their own.
struct Problem {
  explicit Problem(const Case& c) : shape(c), qkv(c.batch * c.length * c.row()), dout(out_size()), out(out_size()),
                                    logsumexp(c.batch * c.all_heads() * c.length), dqkv(qkv.size()), start(c.batch * c.length) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (float& x : qkv) x = normal(random);
    for (float& x : dout) x = normal(random);
    for (std::int64_t b = 0; b < c.batch; ++b) {
      std::int32_t first = 0;
      for (std::int64_t t = 0; t < c.length; ++t) {
        if (random() % 40 == 0) first = static_cast<std::int32_t>(t);
        start[b * c.length + t] = first;
      }
    }
  }
  std::size_t out_size() const { return shape.batch * shape.length * shape.all_heads() * shape.dim; }

  Tensor tensor(std::vector<float>& data, Shape s) const { return {data.data(), DType::f32, s}; }
  Tensor qkv_tensor() { return tensor(qkv, {shape.batch, shape.length, shape.groups, shape.heads + 2, shape.dim}); }
  Tensor dqkv_tensor() { return tensor(dqkv, qkv_tensor().shape()); }
  Tensor out_tensor(std::vector<float>& data) { return tensor(data, {shape.batch, shape.length, shape.all_heads(), shape.dim}); }
  Tensor logsumexp_tensor() { return tensor(logsumexp, {shape.batch, shape.all_heads(), shape.length}); }

  AttentionInput input() {
    AttentionInput in;
    in.qkv = qkv_tensor();
    if (shape.documents) in.document_start = {start.data(), DType::i32, {shape.batch, shape.length}};
    in.scale = 1 / std::sqrt(static_cast<float>(shape.dim));
    if (shape.dropout > 0) in.dropout = {shape.dropout, {1234, 5}, &state, 0};
    in.first_head = 6;
    return in;
  }

  void run(int threads = 1) {
    Stream stream(Device::cpu, threads);
    Arena scratch(Device::cpu, "scratch", std::size_t{64} << 20);
    attention_forward(stream, scratch, out_tensor(out), logsumexp_tensor(), input());
    attention_backward(stream, scratch, dqkv_tensor(), out_tensor(dout), out_tensor(out), logsumexp_tensor(), input());
    CHECK(scratch.used() == 0);
  }

  Case shape;
  StepState state{.sample_base = (std::int64_t{5} << 32) + 11};
  std::vector<float> qkv, dout, out, logsumexp, dqkv;
  std::vector<std::int32_t> start;
};

/// The factor of probability (row, column), from the definition in kernels/dropout.h.
double dropout_factor(const AttentionInput& in, std::int64_t length, std::int64_t sample, std::int64_t head, std::int64_t row,
                      std::int64_t column) {
  if (!in.dropout.active()) return 1;
  std::int64_t row_tiles = (length + 15) / 16, column_tiles = (length + 31) / 32;
  std::int64_t tile = ((in.first_head + head) * row_tiles + row / 16) * column_tiles + column / 32;
  std::int64_t lane = 4 * (row % 8) + column % 8 / 2, byte = row % 16 / 8 * 2 + column % 2;
  auto words = philox(in.dropout.key, in.dropout.state->sample_base + sample, tile * 32 + lane);
  std::uint32_t drawn = words[column % 32 / 8] >> (8 * byte) & 255, threshold = std::lround(in.dropout.probability * 256.0);
  return drawn >= threshold ? 256.0 / (256 - threshold) : 0;
}

struct Reference {
  Doubles out, logsumexp, dqkv;
};

/// One query head of one sequence: pointers to its rows, in a packed qkv with `row` elements a position.
void reference_head(Problem& p, std::int64_t b, std::int64_t head, Reference& result) {
  const Case& c = p.shape;
  AttentionInput in = p.input();
  std::int64_t group = head / c.heads, base = b * c.length * c.row() + group * (c.heads + 2) * c.dim;
  std::int64_t q = base + head % c.heads * c.dim, k = base + c.heads * c.dim, v = k + c.dim;
  for (std::int64_t t = 0; t < c.length; ++t) {
    std::int64_t first = c.documents ? p.start[b * c.length + t] : 0, o = ((b * c.length + t) * c.all_heads() + head) * c.dim;
    Doubles probability(t + 1), dp(t + 1);
    double total = 0, row_dot = 0;
    for (std::int64_t s = first; s <= t; ++s) {
      double score = 0;
      for (std::int64_t d = 0; d < c.dim; ++d) score += double{p.qkv[q + t * c.row() + d]} * p.qkv[k + s * c.row() + d];
      total += probability[s] = std::exp(in.scale * score);
    }
    result.logsumexp[(b * c.all_heads() + head) * c.length + t] = std::log(total);
    for (std::int64_t s = first; s <= t; ++s) {
      probability[s] /= total;
      double factor = dropout_factor(in, c.length, b, head, t, s);
      for (std::int64_t d = 0; d < c.dim; ++d) {
        result.out[o + d] += probability[s] * factor * p.qkv[v + s * c.row() + d];
        result.dqkv[v + s * c.row() + d] += probability[s] * factor * p.dout[o + d];
        dp[s] += factor * p.dout[o + d] * p.qkv[v + s * c.row() + d];
      }
      row_dot += probability[s] * dp[s];
    }
    for (std::int64_t s = first; s <= t; ++s) {
      double ds = probability[s] * (dp[s] - row_dot) * in.scale;
      for (std::int64_t d = 0; d < c.dim; ++d) {
        result.dqkv[q + t * c.row() + d] += ds * p.qkv[k + s * c.row() + d];
        result.dqkv[k + s * c.row() + d] += ds * p.qkv[q + t * c.row() + d];
      }
    }
  }
}

Reference reference(Problem& p) {
  Reference result{Doubles(p.out.size()), Doubles(p.logsumexp.size()), Doubles(p.dqkv.size())};
  for (std::int64_t b = 0; b < p.shape.batch; ++b) {
    for (std::int64_t head = 0; head < p.shape.all_heads(); ++head) reference_head(p, b, head, result);
  }
  return result;
}

template <class Expected>
double relative_rms(const std::vector<float>& got, const Expected& expected) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += std::pow(double{got[i]} - expected[i], 2);
    norm += std::pow(double{expected[i]}, 2);
  }
  return std::sqrt(error / std::max(norm, 1e-30));
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

}  // namespace

TEST_CASE("attention: forward and backward equal the fp64 reference") {
  for (const Case& c : kCases) {
    CAPTURE(c.length);
    CAPTURE(c.dim);
    Problem problem(c);
    problem.run();
    Reference expected = reference(problem);
    CHECK(relative_rms(problem.out, expected.out) < 1e-6);
    CHECK(relative_rms(problem.logsumexp, expected.logsumexp) < 1e-6);
    CHECK(relative_rms(problem.dqkv, expected.dqkv) < 2e-6);
  }
}

TEST_CASE("attention: gradients equal finite differences") {
  for (const Case& c : {Case{1, 20, 1, 2, 5}, Case{2, 35, 2, 1, 8, true, 0.25f}}) {
    Problem problem(c);
    problem.run();
    auto loss = [&] {
      double sum = 0;
      Reference r = reference(problem);
      for (std::size_t i = 0; i < r.out.size(); ++i) sum += r.out[i] * problem.dout[i];
      return sum;
    };
    std::mt19937 random(3);
    for (int trial = 0; trial < 25; ++trial) {
      std::size_t i = random() % problem.qkv.size();
      const float kept = problem.qkv[i], step = 1.0f / 64;
      problem.qkv[i] = kept + step;
      double above = loss();
      problem.qkv[i] = kept - step;
      double slope = (above - loss()) / (2 * step);
      problem.qkv[i] = kept;
      CHECK(problem.dqkv[i] == doctest::Approx(slope).epsilon(2e-3));
    }
  }
}

TEST_CASE("attention: one thread and four give the same bits") {
  for (const Case& c : kCases) {
    Problem one(c), four(c);
    one.run(1);
    four.run(4);
    CHECK(same_bits(one.out, four.out));
    CHECK(same_bits(one.logsumexp, four.logsumexp));
    CHECK(same_bits(one.dqkv, four.dqkv));
  }
}

TEST_CASE("attention: a batch cut in two, and heads cut in two, give the same bits") {
  Problem whole({4, 70, 2, 2, 16, true, 0.2f}), part({2, 70, 1, 2, 16, true, 0.2f});
  whole.run();
  const Case &w = whole.shape, &c = part.shape;
  for (std::int64_t b = 0; b < w.batch; b += c.batch) {
    for (std::int64_t g = 0; g < w.groups; ++g) {
      std::int64_t qkv_row = c.row(), out_row = c.heads * c.dim;
      for (std::int64_t t = 0; t < c.batch * c.length; ++t) {
        std::int64_t from = b * c.length + t;
        std::copy_n(&whole.qkv[(from * w.groups + g) * qkv_row], qkv_row, &part.qkv[t * qkv_row]);
        std::copy_n(&whole.dout[(from * w.groups + g) * out_row], out_row, &part.dout[t * out_row]);
        part.start[t] = whole.start[from];
      }
      part.state.sample_base = whole.state.sample_base + b;
      Stream stream(Device::cpu);
      Arena scratch(Device::cpu, "scratch", 1 << 24);
      AttentionInput in = part.input();
      in.first_head += g * c.heads;
      attention_forward(stream, scratch, part.out_tensor(part.out), part.logsumexp_tensor(), in);
      attention_backward(stream, scratch, part.dqkv_tensor(), part.out_tensor(part.dout), part.out_tensor(part.out),
                         part.logsumexp_tensor(), in);
      for (std::int64_t t = 0; t < c.batch * c.length; ++t) {
        std::int64_t from = b * c.length + t;
        CHECK(std::equal(&part.out[t * out_row], &part.out[t * out_row] + out_row, &whole.out[(from * w.groups + g) * out_row]));
        CHECK(std::equal(&part.dqkv[t * qkv_row], &part.dqkv[t * qkv_row] + qkv_row, &whole.dqkv[(from * w.groups + g) * qkv_row]));
      }
    }
  }
}

namespace {

/// A cache for every sequence of a problem, and the answers to the problem fed to it piece by piece.
struct Cached {
  Cached(Problem& p, std::int64_t capacity)
      : problem(p), keys(p.shape.batch * capacity * p.shape.groups * p.shape.dim), values(keys.size()), lengths(p.shape.batch),
        capacity(capacity) {}

  /// Feeds `count` positions from `begin` on, and copies their outputs into `out`, laid out like the whole problem's.
  void feed(std::int64_t begin, std::int64_t count, std::vector<float>& out, int threads = 1) {
    const Case& c = problem.shape;
    Case piece{c.batch, count, c.groups, c.heads, c.dim};
    Problem part(piece);
    std::int64_t out_row = c.all_heads() * c.dim;
    for (std::int64_t b = 0; b < c.batch; ++b) {
      std::copy_n(&problem.qkv[(b * c.length + begin) * c.row()], count * c.row(), &part.qkv[b * count * c.row()]);
    }
    Stream stream(Device::cpu, threads);
    Arena scratch(Device::cpu, "scratch", 1 << 24);
    attention_cached(stream, scratch, part.out_tensor(part.out), part.input(), cache());
    for (std::int64_t b = 0; b < c.batch; ++b) {
      std::copy_n(&part.out[b * count * out_row], count * out_row, &out[(b * c.length + begin) * out_row]);
      lengths[b] += static_cast<std::int32_t>(count);
    }
  }
  KvCache cache() {
    const Case& c = problem.shape;
    Shape rows{c.batch, capacity, c.groups, c.dim};
    return {{keys.data(), DType::f32, rows}, {values.data(), DType::f32, rows}, {lengths.data(), DType::i32, {c.batch}}};
  }

  Problem& problem;
  std::vector<float> keys, values;
  std::vector<std::int32_t> lengths;
  std::int64_t capacity;
};

}  // namespace

TEST_CASE("attention: with a cache, token by token or in pieces, equals attention without") {
  for (const Case& c : {Case{1, 5, 1, 1, 1}, Case{2, 111, 2, 2, 24}, Case{1, 230, 1, 4, 5}}) {
    Problem problem(c);
    problem.run();
    for (std::int64_t first : {std::int64_t{1}, c.length / 2, c.length - 1}) {
      Cached cached(problem, c.length + 3);
      std::vector<float> out(problem.out.size());
      cached.feed(0, first, out);
      std::int64_t second = std::min<std::int64_t>(2, c.length - first);
      cached.feed(first, second, out);
      for (std::int64_t t = first + second; t < c.length; ++t) cached.feed(t, 1, out, 4);
      CHECK(relative_rms(out, problem.out) < 1e-6);
    }
  }
}

TEST_CASE("attention: a full cache is refused before anything is written") {
  Problem problem({2, 6, 1, 1, 4});
  Cached cached(problem, 6);
  std::vector<float> out(problem.out.size());
  cached.feed(0, 5, out);
  std::vector<float> before = cached.keys;
  cached.lengths[1] = 6;
  CHECK_THROWS_WITH(cached.feed(5, 1, out), doctest::Contains("full"));
  CHECK(same_bits(before, cached.keys));
}

TEST_CASE("attention: meta counts what the cpu counts, plans its scratch and touches nothing") {
  for (const Case& c : {Case{2, 33, 2, 2, 8, true, 0.1f}, Case{1, 64, 4, 1, 64}}) {
    Problem problem(c);
    Stream cpu(Device::cpu, 3), meta(Device::meta, 3);
    Arena plan(Device::meta, "scratch", 0);
    auto without_data = [](Tensor t) { return Tensor(nullptr, t.dtype(), t.shape()); };
    AttentionInput nowhere = problem.input();
    nowhere.qkv = without_data(nowhere.qkv);
    if (c.documents) nowhere.document_start = without_data(nowhere.document_start);
    nowhere.dropout.state = nullptr;
    Tensor out = without_data(problem.out_tensor(problem.out)), logsumexp = without_data(problem.logsumexp_tensor());
    attention_forward(meta, plan, out, logsumexp, nowhere);
    CHECK(meta.counters().flops == 2.0 * c.batch * c.all_heads() * c.length * c.length * c.dim);
    attention_backward(meta, plan, nowhere.qkv, out, out, logsumexp, nowhere);

    Arena scratch(Device::cpu, "scratch", plan.peak());  // exactly what was planned
    attention_forward(cpu, scratch, problem.out_tensor(problem.out), problem.logsumexp_tensor(), problem.input());
    attention_backward(cpu, scratch, problem.dqkv_tensor(), problem.out_tensor(problem.dout), problem.out_tensor(problem.out),
                       problem.logsumexp_tensor(), problem.input());
    CHECK(scratch.peak() == plan.peak());
    CHECK(cpu.counters().flops == meta.counters().flops);
    CHECK(cpu.counters().flops == 7.0 * c.batch * c.all_heads() * c.length * c.length * c.dim);
    CHECK(cpu.counters().bytes == meta.counters().bytes);
  }
}

TEST_CASE("attention: what does not fit is refused") {
  Problem problem({2, 8, 1, 2, 4, true, 0.1f});
  Stream stream(Device::cpu);
  Arena scratch(Device::cpu, "scratch", 1 << 20);
  Tensor out = problem.out_tensor(problem.out), logsumexp = problem.logsumexp_tensor();
  auto forward = [&](const AttentionInput& in) { attention_forward(stream, scratch, out, logsumexp, in); };
  CHECK_NOTHROW(forward(problem.input()));

  AttentionInput in = problem.input();
  in.qkv = in.qkv.view({2, 8, 4, 4});
  CHECK_THROWS_WITH(forward(in), doctest::Contains("qkv"));
  in = problem.input();
  in.qkv = in.qkv.view({2, 8, 2, 2, 4});
  CHECK_THROWS_AS(forward(in), Error);
  in = problem.input();
  in.document_start = in.document_start.view({8, 2});
  CHECK_THROWS_WITH(forward(in), doctest::Contains("document_start"));
  in = problem.input();
  in.dropout.probability = 0.999f;
  CHECK_THROWS_WITH(forward(in), doctest::Contains("dropout"));
  in = problem.input();
  in.scale = 0;
  CHECK_THROWS_WITH(forward(in), doctest::Contains("scale"));
  problem.start[3] = 4;
  CHECK_THROWS_WITH(forward(problem.input()), doctest::Contains("position 3"));
  problem.start[3] = 0;

  CHECK_THROWS_AS(attention_forward(stream, scratch, out, logsumexp.view({2, 8, 2}), problem.input()), Error);
  CHECK_THROWS_AS(attention_forward(stream, scratch, out.view({2, 8, 8}), logsumexp, problem.input()), Error);
  CHECK_THROWS_AS(attention_backward(stream, scratch, problem.dqkv_tensor().view({2, 8, 2, 2, 4}), out, out, logsumexp, problem.input()), Error);
  CHECK(scratch.used() == 0);
}
