// Attention against its definition in fp64, against finite differences, and against itself: other numbers of threads,
// other cuts of the batch, with and without a cache.
#include "kernels/attention.h"

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "tests/kernels/dropout_reference.h"
#include "tests/kernels/reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

struct Case {
  std::int64_t batch, length, groups, heads, dim;  // heads per group
  bool documents = false;
  float dropout = 0;
  std::int64_t all_heads() const { return groups * heads; }
  std::int64_t row() const { return groups * (heads + 2) * dim; }
};

const Case kCases[] = {
    {1, 1, 1, 1, 1},
    {2, 3, 1, 1, 3},
    {1, 17, 2, 2, 5},
    {2, 64, 2, 1, 16},
    {1, 65, 1, 4, 32},
    {1, 127, 2, 1, 64, true},
    {1, 205, 1, 2, 80},
    {2, 50, 3, 1, 8, false, 0.1f},
    {1, 97, 2, 4, 64, true, 0.3f},
    {1, 300, 1, 2, 33, true, 0.5f},
    {1, 481, 1, 1, 24, true},
    {3, 48, 1, 1, 64, false, 0.001f},
};

using Doubles = std::vector<double>;

/// Operands and results of one case.
struct Problem {
  explicit Problem(const Case& c)
      : shape(c),
        qkv(random_tensor({c.batch, c.length, c.groups, c.heads + 2, c.dim}, 1)),
        dout(random_tensor({c.batch, c.length, c.all_heads(), c.dim}, 2)),
        out(dout.shape()),
        logsumexp({c.batch, c.all_heads(), c.length}),
        dqkv(qkv.shape()),
        document_start(DType::i32, {c.batch, c.length}) {
    std::mt19937 random(7);
    for (std::int64_t t = 0; t < c.batch * c.length; ++t) {
      bool begins = t % c.length == 0 || random() % 40 == 0;
      start()[t] = begins ? static_cast<std::int32_t>(t % c.length) : start()[t - 1];
    }
  }
  std::int32_t* start() const { return document_start.host<std::int32_t>(); }

  AttentionInput input() const {
    AttentionInput in;
    in.qkv = unpack_qkv(qkv);
    if (shape.documents) in.document_start = document_start;
    in.scale = 1 / std::sqrt(static_cast<float>(shape.dim));
    if (shape.dropout > 0) in.dropout = {shape.dropout, {1234, 5}};
    in.rows = {samples_from(first_sample).flat(0, shape.batch), 0, shape.length};
    in.first_head = 6;
    return in;
  }

  void run(int threads = 1) { run(input(), threads); }
  void run(const AttentionInput& in, int threads = 1) {
    Stream stream(kDevice, threads);
    Arena scratch(kDevice, "scratch", std::size_t{16} << 20);
    attention_forward(stream, scratch, out, logsumexp, in);
    attention_backward(stream, scratch, unpack_qkv(dqkv), dout, out, logsumexp, in);
    CHECK(scratch.used() == 0);
  }

  Case shape;
  std::int64_t first_sample = (std::int64_t{5} << 32) + 11;
  Owned qkv, dout, out, logsumexp, dqkv, document_start;
};

/// The factor of probability (row, column), from the definition in kernels/dropout.h.
double dropout_factor(const AttentionInput& in, std::int64_t length, std::int64_t sample, std::int64_t head,
                      std::int64_t row, std::int64_t column) {
  if (!in.dropout.active()) return 1;
  std::int64_t row_tiles = (length + 15) / 16, column_tiles = (length + 31) / 32;
  std::int64_t tile = ((in.first_head + head) * row_tiles + row / 16) * column_tiles + column / 32;
  std::int64_t lane = 4 * (row % 8) + column % 8 / 2, byte = row % 16 / 8 * 2 + column % 2;
  auto words = philox(in.dropout.key, sample_of(in.rows.samples, sample), tile * 32 + lane);
  std::uint32_t drawn = words[column % 32 / 8] >> (8 * byte) & 255,
                threshold = std::lround(in.dropout.probability * 256.0);
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
    std::int64_t first = c.documents ? p.start()[b * c.length + t] : 0,
                 o = ((b * c.length + t) * c.all_heads() + head) * c.dim;
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
  Reference result{Doubles(p.out.numel()), Doubles(p.logsumexp.numel()), Doubles(p.dqkv.numel())};
  for (std::int64_t b = 0; b < p.shape.batch; ++b) {
    for (std::int64_t head = 0; head < p.shape.all_heads(); ++head) reference_head(p, b, head, result);
  }
  return result;
}

}  // namespace

TEST_CASE("attention: forward and backward equal the fp64 reference") {
  for (const Case& c : kCases) {
    CAPTURE(c.length);
    CAPTURE(c.dim);
    Problem problem(c);
    problem.run();
    Reference expected = reference(problem);
    CHECK(relative_rms(problem.out, expected.out) < kTolerance.elementwise);
    CHECK(relative_rms(problem.logsumexp, expected.logsumexp) < kTolerance.elementwise);
    CHECK(relative_rms(problem.dqkv, expected.dqkv) < kTolerance.reduction);
  }
}

TEST_CASE("attention: every instruction set of this machine equals the reference") {
  for (std::int64_t target : {HWY_SSE4, HWY_AVX2, HWY_AVX3}) {
    if ((hwy::SupportedTargets() & target) == 0) continue;
    CAPTURE(hwy::TargetName(target));
    hwy::GetChosenTarget().Update(target);
    Problem problem({1, 131, 1, 2, 21, true, 0.2f});
    problem.run();
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    Reference expected = reference(problem);
    CHECK(relative_rms(problem.out, expected.out) < kTolerance.elementwise);
    CHECK(relative_rms(problem.dqkv, expected.dqkv) < kTolerance.reduction);
  }
}

TEST_CASE("attention: gradients equal finite differences") {
  for (const Case& c : {Case{1, 9, 1, 2, 5}, Case{2, 19, 1, 1, 3, true, 0.25f}}) {
    Problem problem(c);
    problem.run();
    Owned dqkv = std::move(problem.dqkv);
    problem.dqkv = Owned(dqkv.shape());
    Doubles slopes = finite_differences(problem.qkv, [&] {
      problem.run();
      return weighted_sum(problem.dout, problem.out);
    });
    CHECK(relative_rms(dqkv, slopes) < kTolerance.difference);
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
  std::int64_t positions = c.batch * c.length, out_row = c.heads * c.dim;
  for (std::int64_t first = 0; first < w.batch; first += c.batch) {
    for (std::int64_t group = 0; group < w.groups; ++group) {
      auto place = [&](std::int64_t t) { return (first * w.length + t) * w.groups + group; };
      for (std::int64_t t = 0; t < positions; ++t) {
        std::copy_n(&whole.qkv[place(t) * c.row()], c.row(), &part.qkv[t * c.row()]);
        std::copy_n(&whole.dout[place(t) * out_row], out_row, &part.dout[t * out_row]);
        part.start()[t] = whole.start()[first * w.length + t];
      }
      part.first_sample = whole.first_sample + first;
      AttentionInput in = part.input();
      in.first_head += group * c.heads;
      part.run(in);
      for (std::int64_t t = 0; t < positions; ++t) {
        CHECK(std::equal(&part.out[t * out_row], &part.out[t * out_row] + out_row, &whole.out[place(t) * out_row]));
        CHECK(std::equal(&part.dqkv[t * c.row()], &part.dqkv[t * c.row()] + c.row(), &whole.dqkv[place(t) * c.row()]));
      }
    }
  }
}

namespace {

/// A cache for every sequence of a problem, which is fed to it piece by piece; `out` gathers the answers.
struct Cached {
  Cached(const Problem& p, std::int64_t capacity)
      : problem(p),
        keys({p.shape.batch, capacity, p.shape.groups, 1, p.shape.dim}),
        values(keys.shape()),
        lengths(DType::i32, {p.shape.batch}),
        out(p.out.shape()) {}

  void feed(std::int64_t begin, std::int64_t count, int threads = 1) {
    const Case& c = problem.shape;
    Problem part({c.batch, count, c.groups, c.heads, c.dim});
    std::int64_t out_row = c.all_heads() * c.dim;
    for (std::int64_t b = 0; b < c.batch; ++b) {
      std::copy_n(&problem.qkv[(b * c.length + begin) * c.row()], count * c.row(), &part.qkv[b * count * c.row()]);
    }
    Stream stream(kDevice, threads);
    Arena scratch(kDevice, "scratch", 1 << 22);
    AttentionInput in = part.input();
    append_to_cache(stream, {keys, values, lengths}, in.qkv.k, in.qkv.v);
    attention_forward(stream, scratch, part.out, {}, past(in));
    CHECK(scratch.used() == 0);
    for (std::int64_t b = 0; b < c.batch; ++b) {
      std::copy_n(&part.out[b * count * out_row], count * out_row, &out[(b * c.length + begin) * out_row]);
      held()[b] += static_cast<std::int32_t>(count);
    }
  }
  /// The same queries over the cache.
  AttentionInput past(AttentionInput in) const {
    in.qkv.k = {keys};
    in.qkv.v = {values};
    in.past = lengths;
    return in;
  }
  std::int32_t* held() const { return lengths.host<std::int32_t>(); }

  const Problem& problem;
  Owned keys, values, lengths, out;
};

}  // namespace

TEST_CASE("attention: with a cache, token by token or in pieces, equals attention without") {
  for (const Case& c : {Case{1, 5, 1, 1, 1}, Case{2, 111, 2, 2, 24}, Case{1, 230, 1, 4, 5}}) {
    Problem problem(c);
    problem.run();
    for (std::int64_t first : {std::int64_t{1}, c.length / 2, c.length - 1}) {
      Cached cached(problem, c.length + 3);
      cached.feed(0, first);
      std::int64_t second = std::min<std::int64_t>(2, c.length - first);
      cached.feed(first, second);
      for (std::int64_t t = first + second; t < c.length; ++t) cached.feed(t, 1, 4);
      CHECK(relative_rms(cached.out, problem.out.values()) < kTolerance.elementwise);
    }
  }
}

namespace {

/// Queries [first, first + count) of a problem's sequences over its keys, and what the reference says of them.
struct SomeQueries {
  SomeQueries(Problem& p, std::int64_t first_query, std::int64_t count)
      : c(p.shape),
        first(first_query),
        q({c.batch, count, c.groups, c.heads + 2, c.dim}),
        out({c.batch, count, c.all_heads(), c.dim}),
        logsumexp({c.batch, c.all_heads(), count}),
        document_start(DType::i32, {c.batch, count}) {
    for (std::int64_t b = 0; b < c.batch; ++b) {
      std::copy_n(&p.qkv[(b * c.length + first) * c.row()], count * c.row(), &q[b * count * c.row()]);
      std::copy_n(p.start() + b * c.length + first, count, document_start.host<std::int32_t>() + b * count);
    }
  }
  AttentionInput input(const Problem& p) const {
    AttentionInput in = p.input();
    in.qkv.q.tensor = q;
    in.rows.first_row = first;
    if (c.documents) in.document_start = document_start;
    return in;
  }
  /// The rows of a result (rows, whole / rows) per sequence or head that belong to these queries.
  Doubles part_of(const Doubles& whole, std::int64_t outer, std::int64_t inner) const {
    Doubles part;
    for (std::int64_t i = 0; i < outer; ++i) {
      auto begin = whole.begin() + (i * c.length + first) * inner;
      part.insert(part.end(), begin, begin + q.shape()[1] * inner);
    }
    return part;
  }

  Case c;
  std::int64_t first;
  Owned q, out, logsumexp, document_start;
};

}  // namespace

TEST_CASE("attention: fewer queries than keys, from any position, equal the fp64 reference") {
  Arena scratch(kDevice, "scratch", std::size_t{16} << 20);
  for (const Case& c : {Case{2, 5, 1, 1, 3}, Case{2, 77, 2, 2, 16, true}, Case{1, 260, 2, 3, 33, true}}) {
    Problem problem(c);
    Reference expected = reference(problem);
    for (std::int64_t count : {std::int64_t{1}, c.length / 3, c.length - 1}) {
      for (std::int64_t first : {std::int64_t{0}, std::int64_t{1}, c.length - count}) {
        CAPTURE(count);
        CAPTURE(first);
        SomeQueries some(problem, first, count);
        Stream stream(kDevice, 2);
        attention_forward(stream, scratch, some.out, some.logsumexp, some.input(problem));
        CHECK(relative_rms(some.out, some.part_of(expected.out, c.batch, c.all_heads() * c.dim)) <
              kTolerance.elementwise);
        CHECK(relative_rms(some.logsumexp, some.part_of(expected.logsumexp, c.batch * c.all_heads(), 1)) <
              kTolerance.elementwise);
        CHECK_THROWS_WITH(attention_backward(stream, scratch, some.input(problem).qkv, some.out, some.out,
                                             some.logsumexp, some.input(problem)),
                          doctest::Contains("whole sequences"));
      }
    }
  }
}

TEST_CASE("attention: sequences with different numbers of keys before the queries equal the fp64 reference") {
  Arena scratch(kDevice, "scratch", std::size_t{16} << 20);
  Problem problem({3, 140, 2, 2, 24});
  const Case& c = problem.shape;
  Reference expected = reference(problem);
  for (std::int64_t count : {1, 6}) {
    const Owned past = integers({3}, {0, 77, static_cast<std::int32_t>(c.length - count)});
    Owned q({c.batch, count, c.groups, c.heads + 2, c.dim}), out({c.batch, count, c.all_heads(), c.dim});
    Doubles wanted;
    const std::int64_t row = c.all_heads() * c.dim;
    for (std::int64_t b = 0; b < c.batch; ++b) {
      const std::int64_t first = b * c.length + past.host<std::int32_t>()[b];
      std::copy_n(&problem.qkv[first * c.row()], count * c.row(), &q[b * count * c.row()]);
      wanted.insert(wanted.end(), expected.out.begin() + first * row, expected.out.begin() + (first + count) * row);
    }
    AttentionInput in = problem.input();
    in.qkv.q.tensor = q;
    in.past = past;
    Stream stream(kDevice, 2);
    attention_forward(stream, scratch, out, {}, in);
    CHECK(relative_rms(out, wanted) < kTolerance.elementwise);
    past.host<std::int32_t>()[1] = static_cast<std::int32_t>(c.length - count + 1);
    in.past = past;
    CHECK_THROWS_WITH(attention_forward(stream, scratch, out, {}, in), doctest::Contains("sequence 1"));
  }
}

TEST_CASE("attention: a full cache is refused before anything is written") {
  Problem problem({2, 6, 1, 1, 4});
  Cached cached(problem, 6);
  cached.feed(0, 5);
  Doubles before = cached.keys.values();
  cached.held()[1] = 6;
  CHECK_THROWS_WITH(cached.feed(5, 1), doctest::Contains("full"));
  CHECK(before == cached.keys.values());
}

TEST_CASE("attention: meta counts what the device counts, plans its scratch and touches nothing") {
  for (const Case& c : {Case{2, 33, 2, 2, 8, true, 0.1f}, Case{1, 64, 4, 1, 64}}) {
    Problem problem(c);
    Stream stream(kDevice, 3), counter(Device::meta, 3, kDevice);
    Arena plan(Device::meta, "scratch", 0);
    AttentionInput nowhere = problem.input();
    nowhere.qkv = unpack_qkv(meta(problem.qkv.shape()));
    if (c.documents) nowhere.document_start = meta({c.batch, c.length}, DType::i32);
    nowhere.rows.samples = meta({c.batch}, DType::i64);
    Tensor out = meta(problem.out.shape()), logsumexp = meta(problem.logsumexp.shape());
    double pairs = static_cast<double>(c.batch * c.all_heads() * c.length * c.length * c.dim);
    attention_forward(counter, plan, out, logsumexp, nowhere);
    CHECK(counter.counters().flops == 2 * pairs);
    attention_backward(counter, plan, nowhere.qkv, out, out, logsumexp, nowhere);
    CHECK(counter.counters().flops == 7 * pairs);

    Arena scratch(kDevice, "scratch", plan.peak());  // exactly what was planned
    attention_forward(stream, scratch, problem.out, problem.logsumexp, problem.input());
    attention_backward(stream, scratch, unpack_qkv(problem.dqkv), problem.dout, problem.out, problem.logsumexp,
                       problem.input());
    CHECK(scratch.peak() == plan.peak());
    CHECK(stream.counters().flops == counter.counters().flops);
    CHECK(stream.counters().bytes == counter.counters().bytes);
  }
}

TEST_CASE("attention with a cache: meta counts a full cache, and so does the device") {
  for (std::int64_t length : {1, 5}) {
    Problem problem({2, length, 2, 2, 8});
    Cached cached(problem, 9);
    Stream stream(kDevice, 2), counter(Device::meta, 2, kDevice);
    Arena plan(Device::meta, "scratch", 0);
    Shape rows = cached.keys.shape();
    Qkv added = unpack_qkv(meta(problem.qkv.shape()));
    KvCache nowhere{meta(rows), meta(rows), meta({2}, DType::i32)};
    AttentionInput over = problem.input();
    over.qkv = {added.q, {nowhere.keys}, {nowhere.values}};
    over.past = nowhere.lengths;
    append_to_cache(counter, nowhere, added.k, added.v);
    attention_forward(counter, plan, meta(problem.out.shape()), {}, over);
    Arena scratch(kDevice, "scratch", plan.peak());
    append_to_cache(stream, {cached.keys, cached.values, cached.lengths}, problem.input().qkv.k, problem.input().qkv.v);
    attention_forward(stream, scratch, problem.out, {}, cached.past(problem.input()));
    const auto queries = static_cast<double>(length);
    CHECK(counter.counters().flops == 4.0 * 2 * 4 * 8 * (9 * queries - queries * queries / 2));
    CHECK(scratch.peak() == plan.peak());
    CHECK(stream.counters().flops == counter.counters().flops);
    CHECK(stream.counters().bytes == counter.counters().bytes);
  }
}

TEST_CASE("attention: what does not fit is refused") {
  Problem problem({2, 8, 1, 2, 4, true, 0.1f});
  Stream stream(kDevice);
  Arena scratch(kDevice, "scratch", 1 << 20);
  Tensor out = problem.out, logsumexp = problem.logsumexp, lengths = meta({2}, DType::i32);
  auto forward = [&](const AttentionInput& in) { attention_forward(stream, scratch, out, logsumexp, in); };
  CHECK_NOTHROW(forward(problem.input()));

  auto refused = [&](const char* word, auto change) {
    AttentionInput in = problem.input();
    change(in);
    CHECK_THROWS_WITH(forward(in), doctest::Contains(word));
  };
  Tensor qkv = problem.qkv;
  refused("attention: q", [&](AttentionInput& in) { in.qkv = unpack_qkv(qkv.view({2, 8, 4, 4})); });
  refused("attention: q", [&](AttentionInput& in) { in.qkv = unpack_qkv(qkv.view({2, 8, 2, 2, 4})); });
  refused("attention: q", [](AttentionInput& in) { in.qkv.q.first = 3; });
  refused("attention: k", [](AttentionInput& in) { in.qkv.k.first = 4; });
  refused("one head", [](AttentionInput& in) { in.qkv.v = {in.qkv.v.tensor, 2, 2}; });
  refused("attention: k", [&](AttentionInput& in) { in.qkv.k = {qkv.view({2, 8, 2, 2, 4}), 0, 1}; });
  refused("laid out like k", [&](AttentionInput& in) { in.qkv.v = {qkv.view({2, 4, 1, 8, 4}), 7, 1}; });
  refused("out", [&](AttentionInput& in) {
    in.qkv = unpack_qkv(qkv.view({2, 4, 2, 4, 4}));
    in.rows.seq_length = 4;
    in.document_start = {};
  });
  refused("document_start", [](AttentionInput& in) { in.document_start = in.document_start.view({8, 2}); });
  refused("dropout", [](AttentionInput& in) { in.dropout.probability = 0.999f; });
  refused("dropout", [](AttentionInput& in) { in.dropout.probability = -0.1f; });
  refused("samples", [](AttentionInput& in) { in.rows.samples = {}; });
  refused("positions, 8", [](AttentionInput& in) { in.rows.seq_length = 9; });
  refused("whole sequences", [&](AttentionInput& in) { in.past = lengths; });
  auto undropped = [&](const char* word, auto change) {
    refused(word, [&](AttentionInput& in) {
      in.dropout = {};
      change(in);
    });
  };
  undropped("positions 1 to 9", [](AttentionInput& in) { in.rows.first_row = 1; });
  undropped("positions -1", [](AttentionInput& in) { in.rows.first_row = -1; });
  undropped("documents", [&](AttentionInput& in) { in.past = lengths; });
  refused("scale", [](AttentionInput& in) { in.scale = 0; });
  refused("position 3", [&](AttentionInput& in) {
    problem.start()[3] = 4;
    in.document_start = problem.document_start;
  });
  problem.start()[3] = 0;

  CHECK_THROWS_AS(attention_forward(stream, scratch, out, logsumexp.view({2, 8, 2}), problem.input()), Error);
  CHECK_THROWS_AS(attention_forward(stream, scratch, out.view({2, 8, 8}), logsumexp, problem.input()), Error);
  Tensor dqkv = problem.dqkv.tensor().view({2, 8, 2, 2, 4});
  CHECK_THROWS_AS(attention_backward(stream, scratch, unpack_qkv(dqkv), out, out, logsumexp, problem.input()), Error);
  CHECK_THROWS_AS(attention_backward(stream, scratch, unpack_qkv(problem.dqkv), out, out, {}, problem.input()), Error);
  Qkv one_head = unpack_qkv(problem.dqkv);
  one_head.q.count = 1;
  CHECK_THROWS_WITH(attention_backward(stream, scratch, one_head, out, out, logsumexp, problem.input()),
                    doctest::Contains("dq has 1 heads"));
  CHECK(scratch.used() == 0);
}
