// Attention on context-parallel ranks, which run as threads: golden values, the bits of whole sequences, and memory.
#include "nn/context_region.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/comm/thread_group.h"
#include "tests/engine/golden_model.h"
#include "tests/golden_lines.h"
#include "tests/kernels/attention_reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr ContextExchange kExchanges[] = {ContextExchange::all_gather, ContextExchange::ring};

/// Whole sequences: operands and the results of all ranks, (T, heads, dim) each, in fp32.
struct Whole {
  std::int64_t length = 0, heads = 0, groups = 0, dim = 0;
  std::vector<float> q, k, v, dout;
  std::vector<float> out = {}, dq = {}, dk = {}, dv = {}, lse = {};
  std::vector<std::int32_t> document_start = {};  // empty: no documents
  std::int64_t window = 0;
  Dropout dropout = {};

  std::vector<std::vector<float>*> results() { return {&out, &dq, &dk, &dv, &lse}; }
};

/// Copies rows of `width` elements between a rank's tensor and whole sequences.
void take(const SequencePart& part, std::int64_t rows, std::int64_t width, const std::vector<float>& whole,
          float* out) {
  for (std::int64_t t = 0; t < rows; ++t)
    std::copy_n(whole.begin() + part.position(t, rows) * width, width, out + t * width);
}
void put(const SequencePart& part, std::int64_t rows, std::int64_t width, const float* in, std::vector<float>& whole) {
  for (std::int64_t t = 0; t < rows; ++t)
    std::copy_n(in + t * width, width, whole.begin() + part.position(t, rows) * width);
}

/// Runs forward and backward on `ranks` ranks, and writes the results to `whole`. Returns the scratch bytes of a rank.
std::size_t attend(Whole& whole, int ranks, ContextExchange exchange) {
  for (std::vector<float>* result : whole.results()) result->assign(result->size(), NAN);
  std::mutex mutex;
  std::size_t scratch_bytes = 0;
  run_ranks(RankGrid({.context = ranks}), [&](int rank, const ProcessGroups& groups) {
    const SequencePart part{rank, ranks};
    const std::int64_t rows = whole.length / ranks, per_group = whole.heads / whole.groups;
    const auto floats = [](std::int64_t count) { return std::vector<float>(static_cast<std::size_t>(count)); };
    const auto view = [](std::vector<float>& of, const Shape& shape) { return Tensor(of.data(), DType::f32, shape); };
    std::vector<float> q = floats(rows * whole.heads * whole.dim), dout = q, out = q, dq = q;
    std::vector<float> k = floats(rows * whole.groups * whole.dim), v = k, dk = k, dv = k;
    std::vector<float> lse = floats(rows * whole.heads);
    std::vector<std::int32_t> starts(static_cast<std::size_t>(rows));
    std::vector<std::int64_t> samples{77};
    take(part, rows, whole.heads * whole.dim, whole.q, q.data());
    take(part, rows, whole.heads * whole.dim, whole.dout, dout.data());
    take(part, rows, whole.groups * whole.dim, whole.k, k.data());
    take(part, rows, whole.groups * whole.dim, whole.v, v.data());
    const Shape of_queries{1, rows, whole.groups, per_group, whole.dim}, of_keys{1, rows, whole.groups, 1, whole.dim},
        of_results{1, rows, whole.heads, whole.dim};
    AttentionInput in;
    in.qkv = {{view(q, of_queries), 0, per_group}, {view(k, of_keys)}, {view(v, of_keys)}};
    in.rows = {Tensor(samples.data(), DType::i64, {1}), 0, rows, part};
    if (!whole.document_start.empty()) {
      for (std::int64_t t = 0; t < rows; ++t)
        starts[static_cast<std::size_t>(t)] = whole.document_start[static_cast<std::size_t>(part.position(t, rows))];
      in.document_start = Tensor(starts.data(), DType::i32, {1, rows});
    }
    in.window = whole.window;
    in.scale = 1 / std::sqrt(static_cast<float>(whole.dim));
    in.dropout = whole.dropout;
    Stream stream(Device::cpu, 1);
    Arena slot(Device::cpu, "slot", 64), scratch(Device::cpu, "scratch", std::size_t{16} << 20);
    Ctx ctx{.stream = stream, .slot = &slot, .scratch = scratch, .groups = groups, .training = true};
    const ContextRegion region{exchange};
    const Tensor results = view(out, of_results), logsumexp = view(lse, {1, whole.heads, rows});
    region.forward(ctx, results, logsumexp, in);
    region.backward(ctx, {{view(dq, of_queries), 0, per_group}, {view(dk, of_keys)}, {view(dv, of_keys)}},
                    view(dout, of_results), results, logsumexp, in);
    std::vector<float> lse_rows = floats(rows * whole.heads);  // (T, heads), as in the golden data
    for (std::int64_t t = 0; t < rows; ++t)
      for (std::int64_t h = 0; h < whole.heads; ++h)
        lse_rows[static_cast<std::size_t>(t * whole.heads + h)] = lse[static_cast<std::size_t>(h * rows + t)];
    std::lock_guard lock(mutex);
    put(part, rows, whole.heads * whole.dim, out.data(), whole.out);
    put(part, rows, whole.heads * whole.dim, dq.data(), whole.dq);
    put(part, rows, whole.groups * whole.dim, dk.data(), whole.dk);
    put(part, rows, whole.groups * whole.dim, dv.data(), whole.dv);
    put(part, rows, whole.heads, lse_rows.data(), whole.lse);
    scratch_bytes = std::max(scratch_bytes, scratch.peak());
  });
  return scratch_bytes;
}

/// Returns the largest difference, relative to the largest element.
double difference(const std::vector<float>& actual, const std::vector<double>& expected) {
  double largest = 0, size = 0;
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = larger_or_nan(largest, std::abs(double{actual[i]} - expected[i]));
    size = std::max(size, std::abs(expected[i]));
  }
  return largest / size;
}

struct GoldenAttention {
  SafetensorsFile file{"golden/context_ranks/attention.safetensors"};
  std::vector<float> floats(const std::string& name) const {
    const std::vector<double> values = read_tensor(file, name);
    return {values.begin(), values.end()};
  }
  std::vector<double> doubles(const std::string& name) const { return read_tensor(file, name); }

  Whole operands(const Json& line) const {
    const std::string id = line.at("id").as_string();
    Whole whole{.length = line.at("T").as_int(),
                .heads = line.at("heads").as_int(),
                .groups = line.at("kv_heads").as_int(),
                .dim = line.at("head_dim").as_int(),
                .q = floats(id + ".q"),
                .k = floats(id + ".k"),
                .v = floats(id + ".v"),
                .dout = floats(id + ".dout")};
    if (!line.at("window").is_null()) whole.window = line.at("window").as_int();
    if (!line.at("documents").is_null()) {
      whole.document_start.resize(static_cast<std::size_t>(whole.length));
      for (const Json& first : line.at("documents").as_array())
        std::fill(whole.document_start.begin() + first.as_int(), whole.document_start.end(),
                  static_cast<std::int32_t>(first.as_int()));
    }
    whole.out = whole.dq = whole.q;
    whole.dk = whole.dv = whole.k;
    whole.lse.resize(static_cast<std::size_t>(whole.length * whole.heads));
    return whole;
  }
};

/// A whole sequence with random operands.
Whole random_whole(std::int64_t length, std::int64_t heads, std::int64_t groups, std::int64_t dim) {
  const auto numbers = [](std::int64_t count, unsigned seed) {
    const Owned values = random_tensor({count}, seed);
    return std::vector<float>(values.begin(), values.begin() + count);
  };
  Whole whole{.length = length,
              .heads = heads,
              .groups = groups,
              .dim = dim,
              .q = numbers(length * heads * dim, 1),
              .k = numbers(length * groups * dim, 2),
              .v = numbers(length * groups * dim, 3),
              .dout = numbers(length * heads * dim, 4)};
  whole.out = whole.dq = whole.q;
  whole.dk = whole.dv = whole.k;
  whole.lse.resize(static_cast<std::size_t>(length * heads));
  return whole;
}

}  // namespace

TEST_CASE("context parallelism: both exchanges reproduce attention over whole sequences") {
  const GoldenAttention golden;
  for (const Json& line : golden_lines("golden/context_ranks/attention.jsonl")) {
    const std::string id = line.at("id").as_string();
    Whole whole = golden.operands(line);
    for (const int ranks : {1, 2, 4}) {
      for (const ContextExchange exchange : kExchanges) {
        CAPTURE(id);
        CAPTURE(ranks);
        CAPTURE(static_cast<int>(exchange));
        attend(whole, ranks, exchange);
        CHECK(difference(whole.out, golden.doubles(id + ".out")) < 2e-6);
        CHECK(difference(whole.lse, golden.doubles(id + ".lse")) < 2e-6);
        CHECK(difference(whole.dq, golden.doubles(id + ".dq")) < 1e-5);
        CHECK(difference(whole.dk, golden.doubles(id + ".dk")) < 1e-5);
        CHECK(difference(whole.dv, golden.doubles(id + ".dv")) < 1e-5);
      }
    }
  }
}

TEST_CASE("context parallelism: partial results over the keys of one rank equal the golden ones") {
  const GoldenAttention golden;
  for (const Json& line : golden_lines("golden/context_ranks/attention.jsonl")) {
    const std::string id = line.at("id").as_string();
    const Whole whole = golden.operands(line);
    for (const Json& ranks_of_line : line.at("partial").as_array()) {
      const int ranks = static_cast<int>(ranks_of_line.as_int());
      const std::int64_t rows = whole.length / ranks, per_group = whole.heads / whole.groups;
      for (int owner = 0; owner < ranks; ++owner) {
        CAPTURE(id);
        CAPTURE(ranks);
        CAPTURE(owner);
        const SequencePart own{0, ranks}, of_keys{owner, ranks};
        std::vector<float> q(static_cast<std::size_t>(rows * whole.heads * whole.dim)), out = q;
        std::vector<float> k(static_cast<std::size_t>(rows * whole.groups * whole.dim)),
            v = k, lse(static_cast<std::size_t>(rows * whole.heads));
        std::vector<std::int32_t> starts(static_cast<std::size_t>(rows));
        take(own, rows, whole.heads * whole.dim, whole.q, q.data());
        take(of_keys, rows, whole.groups * whole.dim, whole.k, k.data());
        take(of_keys, rows, whole.groups * whole.dim, whole.v, v.data());
        const Shape key_shape{1, rows, whole.groups, 1, whole.dim};
        AttentionInput in;
        in.qkv = {{Tensor(q.data(), DType::f32, {1, rows, whole.groups, per_group, whole.dim}), 0, per_group},
                  {Tensor(k.data(), DType::f32, key_shape)},
                  {Tensor(v.data(), DType::f32, key_shape)}};
        in.rows = {{}, 0, rows, own};
        in.key_part = of_keys;
        for (std::int64_t t = 0; t < rows && !whole.document_start.empty(); ++t)
          starts[static_cast<std::size_t>(t)] = whole.document_start[static_cast<std::size_t>(own.position(t, rows))];
        if (!whole.document_start.empty()) in.document_start = Tensor(starts.data(), DType::i32, {1, rows});
        in.window = whole.window;
        in.scale = 1 / std::sqrt(static_cast<float>(whole.dim));
        Stream stream(Device::cpu, 1);
        Arena scratch(Device::cpu, "scratch", std::size_t{16} << 20);
        attention_forward(stream, scratch, Tensor(out.data(), DType::f32, {1, rows, whole.heads, whole.dim}),
                          Tensor(lse.data(), DType::f32, {1, whole.heads, rows}), in);
        const std::string name = cat(id, ".cp", ranks, ".owner", owner);
        const std::vector<double> expected = golden.doubles(name + ".out"),
                                  expected_lse = golden.doubles(name + ".lse");
        const bool any = std::any_of(expected.begin(), expected.end(), [](double x) { return x != 0; });
        if (any) CHECK(difference(out, expected) < 2e-6);
        if (!any) CHECK(std::ranges::all_of(out, [](float x) { return x == 0; }));
        for (std::int64_t i = 0; i < rows * whole.heads; ++i) {
          const double value = expected_lse[static_cast<std::size_t>(i)];
          const float actual = lse[static_cast<std::size_t>(i % whole.heads * rows + i / whole.heads)];
          if (value == -1e300)
            CHECK(actual == -std::numeric_limits<float>::infinity());
          else
            CHECK(std::abs(actual - value) < 1e-5);
        }
      }
    }
  }
}

TEST_CASE("context parallelism: with all keys, outputs are the bits of whole sequences, with dropout and windows") {
  for (const std::int64_t window : {0, 50}) {
    Whole whole = random_whole(192, 4, 2, 16);
    whole.dropout = {0.2f, {1234, 5}};
    whole.window = window;
    attend(whole, 1, ContextExchange::all_gather);
    for (const int ranks : {2, 3, 4}) {
      CAPTURE(ranks);
      Whole other = whole;
      attend(other, ranks, ContextExchange::all_gather);
      CHECK(other.out == whole.out);
      CHECK(other.lse == whole.lse);
      CHECK(other.dq == whole.dq);
      const std::vector<double> dk(whole.dk.begin(), whole.dk.end()), dv(whole.dv.begin(), whole.dv.end());
      CHECK(difference(other.dk, dk) < 1e-6);
      CHECK(difference(other.dv, dv) < 1e-6);
    }
  }
}

TEST_CASE("context parallelism: the ring needs less scratch memory than keys and values of whole sequences") {
  Whole whole = random_whole(2048, 1, 1, 64);
  const std::size_t gathered = attend(whole, 8, ContextExchange::all_gather),
                    ring = attend(whole, 8, ContextExchange::ring);
  const std::size_t keys_and_values = 2 * 2048 * 64 * sizeof(float);
  CHECK(gathered > 2 * keys_and_values);
  CHECK(ring < gathered / 2);
}
