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
