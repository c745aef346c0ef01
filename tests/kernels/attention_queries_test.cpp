// Attention for part of a sequence's queries: fewer queries than keys, and keys and values in a cache.
#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "kernels/attention.h"
#include "tests/kernels/attention_reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// A key-value cache for all sequences in a problem, filled piece by piece. `out` collects the results.
struct Cached {
  Cached(const AttentionProblem& p, std::int64_t capacity)
      : problem(p),
        keys(p.shape.dtype, {p.shape.batch, capacity, p.shape.groups, 1, p.shape.dim}),
        values(p.shape.dtype, keys.shape()),
        lengths(DType::i32, {p.shape.batch}),
        out(p.shape.dtype, p.out.shape()) {}

  void feed(std::int64_t begin, std::int64_t count, int threads = 1) {
    const AttentionCase& c = problem.shape;
    AttentionProblem part(
        AttentionCase{c.batch, count, c.groups, c.heads, c.dim}.with_window(c.window).in_dtype(c.dtype));
    std::int64_t out_row = c.all_heads() * c.dim;
    for (std::int64_t b = 0; b < c.batch; ++b) {
      copy_elements(problem.qkv, (b * c.length + begin) * c.row(), count * c.row(), part.qkv, b * count * c.row());
    }
    Stream stream(kDevice, threads);
    AttentionInput in = part.input();
    append_to_cache(stream, {keys, values, lengths}, in.qkv.k, in.qkv.v);
    attention_forward(stream, attention_scratch(), part.out, {}, over_cache(in));
    CHECK(attention_scratch().used() == 0);
    for (std::int64_t b = 0; b < c.batch; ++b) {
      copy_elements(part.out, b * count * out_row, count * out_row, out, (b * c.length + begin) * out_row);
      held()[b] += static_cast<std::int32_t>(count);
    }
  }
  /// Returns the same queries with the cache's keys and values.
  AttentionInput over_cache(AttentionInput in) const {
    in.qkv.k = {keys};
    in.qkv.v = {values};
    in.past = lengths;
    return in;
  }
  std::int32_t* held() const { return lengths.host<std::int32_t>(); }

  const AttentionProblem& problem;
  Owned keys, values, lengths, out;
};

}  // namespace

TEST_CASE("attention: with a cache, token by token or in pieces, equals attention without, in every dtype") {
  for (const AttentionCase& c :
       {AttentionCase{1, 5, 1, 1, 1}, AttentionCase{2, 111, 2, 2, 24}, AttentionCase{1, 230, 1, 4, 5},
        AttentionCase{2, 111, 2, 2, 24}.with_window(17), AttentionCase{1, 230, 1, 4, 5}.with_window(100)}) {
    for (const DType dtype : kAttentionTypes) {
      AttentionProblem problem(c.in_dtype(dtype));
      problem.run();
      for (std::int64_t first : {std::int64_t{1}, c.length / 2, c.length - 1}) {
        Cached cached(problem, c.length + 3);
        cached.feed(0, first);
        std::int64_t second = std::min<std::int64_t>(2, c.length - first);
        cached.feed(first, second);
        std::int64_t t = first + second;
        for (const std::int64_t end = first == 1 ? c.length : std::min(c.length, t + 3); t < end; ++t)
          cached.feed(t, 1, 4);
        if (t < c.length) cached.feed(t, c.length - t);
        CHECK(relative_rms(cached.out, problem.out.values()) < rounding_of(dtype, kTolerance.elementwise));
      }
    }
  }
}

namespace {

/// Queries [first, first + count) from each of a problem's sequences, with all keys.
struct SomeQueries {
  SomeQueries(AttentionProblem& p, std::int64_t first_query, std::int64_t count)
      : c(p.shape),
        first(first_query),
        q(c.dtype, {c.batch, count, c.groups, c.heads + 2, c.dim}),
        out(c.dtype, {c.batch, count, c.all_heads(), c.dim}),
        logsumexp({c.batch, c.all_heads(), count}),
        document_start(DType::i32, {c.batch, count}) {
    for (std::int64_t b = 0; b < c.batch; ++b) {
      copy_elements(p.qkv, (b * c.length + first) * c.row(), count * c.row(), q, b * count * c.row());
      std::copy_n(p.start() + b * c.length + first, count, document_start.host<std::int32_t>() + b * count);
    }
  }
  AttentionInput input(const AttentionProblem& p) const {
    AttentionInput in = p.input();
    in.qkv.q.tensor = q;
    in.rows.first_row = first;
    if (c.documents) in.document_start = document_start;
    return in;
  }
  /// Returns the elements of an (outer, length, inner) result that belong to these queries.
  Doubles part_of(const Doubles& whole, std::int64_t outer, std::int64_t inner) const {
    Doubles part;
    for (std::int64_t i = 0; i < outer; ++i) {
      auto begin = whole.begin() + (i * c.length + first) * inner;
      part.insert(part.end(), begin, begin + q.shape()[1] * inner);
    }
    return part;
  }

  AttentionCase c;
  std::int64_t first;
  Owned q, out, logsumexp, document_start;
};

}  // namespace

TEST_CASE("attention: fewer queries than keys, from any position, equal the fp64 reference") {
  Arena scratch(kDevice, "scratch", std::size_t{16} << 20);
  for (const AttentionCase& c : {AttentionCase{2, 5, 1, 1, 3}, AttentionCase{2, 77, 2, 2, 16}.with_documents(),
                                 AttentionCase{1, 260, 2, 3, 33}.with_documents(),
                                 AttentionCase{2, 77, 2, 2, 16}.with_documents().with_window(20),
                                 AttentionCase{1, 260, 2, 3, 33}.with_documents().with_window(110),
                                 AttentionCase{2, 77, 2, 2, 16}.with_documents().with_window(20).in_dtype(DType::bf16),
                                 AttentionCase{1, 260, 2, 3, 33}.with_documents().with_window(110).in_dtype(DType::f16),
                                 AttentionCase{2, 77, 2, 2, 64}.with_documents().with_window(20).in_dtype(DType::bf16),
                                 AttentionCase{1, 260, 1, 2, 80}.in_dtype(DType::f16),
                                 AttentionCase{1, 90, 2, 2, 112}.with_documents().in_dtype(DType::bf16)}) {
    AttentionProblem problem(c);
    AttentionReference expected = attention_reference(problem);
    for (std::int64_t count : {std::int64_t{1}, c.length / 3, c.length - 1}) {
      for (std::int64_t first : {std::int64_t{0}, std::int64_t{1}, c.length - count}) {
        CAPTURE(count);
        CAPTURE(first);
        SomeQueries some(problem, first, count);
        Stream stream(kDevice, 2);
        attention_forward(stream, scratch, some.out, some.logsumexp, some.input(problem));
        CHECK(relative_rms(some.out, some.part_of(expected.out, c.batch, c.all_heads() * c.dim)) <
              rounding_of(c.dtype, kTolerance.elementwise));
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
  struct Call {
    std::int64_t count, window;
    DType dtype = DType::f32;
    std::int64_t dim = 24;
  };
  for (const auto& [count, window, dtype, dim] : {Call{1, 0},
                                                  {6, 0},
                                                  {1, 40},
                                                  {6, 40},
                                                  {1, 0, DType::bf16},
                                                  {1, 40, DType::f16},
                                                  {6, 40, DType::bf16},
                                                  {1, 0, DType::bf16, 64},
                                                  {6, 0, DType::f16, 64},
                                                  {40, 30, DType::bf16, 96},
                                                  {40, 0, DType::f16, 72}}) {
    AttentionProblem problem(AttentionCase{3, 140, 2, 2, dim}.with_window(window).in_dtype(dtype));
    const AttentionCase& c = problem.shape;
    AttentionReference expected = attention_reference(problem);
    const Owned past = integers({3}, {0, 77, static_cast<std::int32_t>(c.length - count)});
    Owned q(dtype, {c.batch, count, c.groups, c.heads + 2, c.dim}), out(dtype, {c.batch, count, c.all_heads(), c.dim});
    Doubles expected_out;
    const std::int64_t row = c.all_heads() * c.dim;
    for (std::int64_t b = 0; b < c.batch; ++b) {
      const std::int64_t first = b * c.length + past.host<std::int32_t>()[b];
      copy_elements(problem.qkv, first * c.row(), count * c.row(), q, b * count * c.row());
      expected_out.insert(expected_out.end(), expected.out.begin() + first * row,
                          expected.out.begin() + (first + count) * row);
    }
    AttentionInput in = problem.input();
    in.qkv.q.tensor = q;
    in.past = past;
    Stream stream(kDevice, 2);
    attention_forward(stream, scratch, out, {}, in);
    CHECK(relative_rms(out, expected_out) < rounding_of(dtype, kTolerance.elementwise));
    past.host<std::int32_t>()[1] = static_cast<std::int32_t>(c.length - count + 1);
    in.past = past;
    if (device_checks_indices())
      CHECK_THROWS_WITH(attention_forward(stream, scratch, out, {}, in), doctest::Contains("sequence 1"));
    else
      CHECK_NOTHROW(attention_forward(stream, scratch, out, {}, in));
  }
}

namespace {

void fill_nan(const Owned& tensor, std::int64_t begin, std::int64_t count) {
  with_float_type(tensor.dtype(),
                  [&]<class T>(T) { std::fill_n(tensor.host<T>() + begin, count, narrow<T>(std::nanf(""))); });
}

}  // namespace

TEST_CASE("attention: keys before the first query's window are not read, and the scratch covers only those within") {
  for (const auto& [count, dtype, dim] : {std::tuple<std::int64_t, DType, std::int64_t>{1, DType::f32, 16},
                                          {5, DType::f32, 16},
                                          {5, DType::bf16, 64},
                                          {5, DType::f16, 5}}) {
    AttentionProblem problem(AttentionCase{1, 300, 1, 2, dim}.with_window(50).in_dtype(dtype));
    Cached cached(problem, 310);
    cached.feed(0, 300 - count);
    for (const Owned* rows : {&cached.keys, &cached.values}) {
      fill_nan(*rows, 0, (300 - count - 49) * dim);
      fill_nan(*rows, 300 * dim, 10 * dim);  // and the keys not written yet
    }
    cached.feed(300 - count, count);
    const AttentionReference expected = attention_reference(problem);
    CHECK(relative_rms(cached.out, expected.out) < rounding_of(dtype, kTolerance.elementwise));
    Stream counter(Device::meta, 1, kDevice);
    std::size_t peaks[2];
    for (std::int64_t capacity : {300, 30000}) {
      Arena plan(Device::meta, "scratch", 0);
      AttentionInput in = problem.input();
      in.qkv = unpack_qkv(meta({1, count, 1, 4, 16}));
      in.qkv.k = in.qkv.v = {meta({1, capacity, 1, 1, 16})};
      in.past = meta({1}, DType::i32);
      attention_forward(counter, plan, meta({1, count, 2, 16}), {}, in);
      peaks[capacity == 300 ? 0 : 1] = plan.peak();
    }
    CHECK(peaks[0] == peaks[1]);
  }
}

TEST_CASE("attention: a full cache is refused before anything is written") {
  if (!device_checks_indices()) return;
  AttentionProblem problem({2, 6, 1, 1, 4});
  Cached cached(problem, 6);
  cached.feed(0, 5);
  Doubles before = cached.keys.values();
  cached.held()[1] = 6;
  CHECK_THROWS_WITH(cached.feed(5, 1), doctest::Contains("full"));
  CHECK(before == cached.keys.values());
}

TEST_CASE("attention: a device that cannot refuse a full cache writes nothing outside of it") {
  if (device_checks_indices()) return;
  AttentionProblem problem({2, 6, 1, 1, 4});
  Cached cached(problem, 6);
  cached.feed(0, 5);
  Doubles before = cached.keys.values();
  cached.held()[0] = 6;
  cached.held()[1] = std::numeric_limits<std::int32_t>::max();
  cached.feed(5, 1);
  CHECK(before == cached.keys.values());
}

TEST_CASE("attention with a cache: meta counts a full cache, and so does the device") {
  for (const auto& [length, dtype] :
       {std::pair<std::int64_t, DType>{1, DType::f32}, {5, DType::f32}, {1, DType::bf16}, {5, DType::f16}}) {
    AttentionProblem problem(AttentionCase{2, length, 2, 2, 8}.in_dtype(dtype));
    Cached cached(problem, 9);
    Stream stream(kDevice, 2), counter(Device::meta, 2, kDevice);
    Arena plan(Device::meta, "scratch", 0);
    Shape rows = cached.keys.shape();
    Qkv added = unpack_qkv(meta(problem.qkv.shape(), dtype));
    KvCache cache_on_meta{meta(rows, dtype), meta(rows, dtype), meta({2}, DType::i32)};
    AttentionInput on_meta = problem.input();
    on_meta.qkv = {added.q, {cache_on_meta.keys}, {cache_on_meta.values}};
    on_meta.past = cache_on_meta.lengths;
    append_to_cache(counter, cache_on_meta, added.k, added.v);
    attention_forward(counter, plan, meta(problem.out.shape(), dtype), {}, on_meta);
    Arena scratch(kDevice, "scratch", plan.peak());
    append_to_cache(stream, {cached.keys, cached.values, cached.lengths}, problem.input().qkv.k, problem.input().qkv.v);
    attention_forward(stream, scratch, problem.out, {}, cached.over_cache(problem.input()));
    const auto queries = static_cast<double>(length);
    CHECK(counter.counters().flops == 4.0 * 2 * 4 * 8 * (9 * queries - queries * queries / 2));
    CHECK(scratch.peak() == plan.peak());
    CHECK(stream.counters().flops == counter.counters().flops);
    CHECK(stream.counters().bytes == counter.counters().bytes);
  }
}
