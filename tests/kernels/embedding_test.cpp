// Token and position embedding.
#include "kernels/embedding.h"

#include "tests/kernels/dropout_reference.h"
#include "tests/kernels/reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

const StepState kState{.sample_base = 77};

struct Problem {
  std::int64_t samples, length, width;
  std::int64_t vocab = 50, begin = 10, held = 30, max_positions = 40;  // this rank holds tokens 10 .. 39
  Shape shape{samples, length, width};
  Owned tokens = random_integers({samples, length}, 0, static_cast<std::int32_t>(vocab), 1);
  Owned positions = random_integers({samples, length}, 0, static_cast<std::int32_t>(max_positions), 2);
  Owned table = random_tensor({held, width}, 3), position_table = random_tensor({max_positions, width}, 4);
  Owned dout = random_tensor(shape, 5);
  Dropout dropout{0.2f, {9, 8}, &kState, 16};

  EmbeddingInput input() const { return {tokens, positions, begin}; }
  std::int64_t row(std::int64_t place) const { return tokens.tensor().data<std::int32_t>()[place] - begin; }
  bool has_row(std::int64_t place) const { return row(place) >= 0 && row(place) < held; }
  std::int64_t position(std::int64_t place) const { return positions.tensor().data<std::int32_t>()[place]; }
  double mask(std::int64_t place, std::int64_t c) const {
    return hidden_mask(dropout, place / length, place % length, c, width);
  }
};

struct Size {
  std::int64_t samples, length, width;
};
constexpr Size kSizes[] = {{1, 1, 1}, {2, 3, 7}, {3, 16, 1031}, {2, 64, 256}};

}  // namespace

TEST_CASE("embedding: forward equals the reference, tokens of other ranks give the position alone") {
  Stream stream(Device::cpu, 2);
  for (auto [samples, length, width] : kSizes) {
    for (bool with_positions : {true, false}) {
      Problem p{samples, length, width};
      Owned out(p.shape);
      std::vector<double> expected;
      for (std::int64_t i = 0; i < out.numel(); ++i) {
        const std::int64_t place = i / width, c = i % width;
        double x = p.has_row(place) ? static_cast<double>(p.table[p.row(place) * width + c]) : 0.0;
        if (with_positions) x += static_cast<double>(p.position_table[p.position(place) * width + c]);
        expected.push_back(x * p.mask(place, c));
      }
      embedding_forward(stream, out, p.input(), p.table, with_positions ? p.position_table.tensor() : Tensor(),
                        p.dropout);
      CHECK(relative_rms(out, expected) < kTolerance.elementwise);
    }
  }
}

TEST_CASE("embedding: gradients are summed over places, overwriting and accumulating") {
  Stream stream(Device::cpu, 2);
  for (auto [samples, length, width] : kSizes) {
    for (GradMode mode : {GradMode::overwrite, GradMode::accumulate}) {
      Problem p{samples, length, width};
      Owned dtable = random_tensor({p.held, width}, 6), dpositions = random_tensor({p.max_positions, width}, 7);
      std::vector<double> tokens = dtable.values(), positions = dpositions.values();
      if (mode == GradMode::overwrite) {
        tokens.assign(tokens.size(), 0.0);
        positions.assign(positions.size(), 0.0);
      }
      for (std::int64_t i = 0; i < p.dout.numel(); ++i) {
        const std::int64_t place = i / width, c = i % width;
        const double dx = p.mask(place, c) * static_cast<double>(p.dout[i]);
        if (p.has_row(place)) tokens[static_cast<std::size_t>(p.row(place) * width + c)] += dx;
        positions[static_cast<std::size_t>(p.position(place) * width + c)] += dx;
      }
      embedding_backward(stream, {dtable, mode}, {dpositions, mode}, p.dout, p.input(), p.dropout);
      CHECK(relative_rms(dtable, tokens) < kTolerance.elementwise);
      CHECK(relative_rms(dpositions, positions) < kTolerance.elementwise);
      Owned alone = random_tensor({p.held, width}, 6);
      embedding_backward(stream, {alone, mode}, {}, p.dout, p.input(), p.dropout);
      CHECK(same_bits(alone, dtable));
    }
  }
}

TEST_CASE("embedding: gradients equal finite differences") {
  Stream stream(Device::cpu);
  Problem p{2, 5, 3};
  Owned out(p.shape), dtable({p.held, 3}), dpositions({p.max_positions, 3});
  embedding_backward(stream, {dtable}, {dpositions}, p.dout, p.input(), p.dropout);
  const auto loss = [&] {
    embedding_forward(stream, out, p.input(), p.table, p.position_table, p.dropout);
    return weighted_sum(p.dout, out);
  };
  CHECK(relative_rms(dtable, finite_differences(p.table, loss)) < kTolerance.difference);
  CHECK(relative_rms(dpositions, finite_differences(p.position_table, loss)) < kTolerance.difference);
}

TEST_CASE("embedding: one thread and four give the same bits") {
  Problem p{4, 100, 259};
  Stream serial(Device::cpu, 1), parallel(Device::cpu, 4);
  Owned out1(p.shape), out4(p.shape), table1({p.held, 259}), table4({p.held, 259}), positions1({40, 259}),
      positions4({40, 259});
  embedding_forward(serial, out1, p.input(), p.table, p.position_table, p.dropout);
  embedding_forward(parallel, out4, p.input(), p.table, p.position_table, p.dropout);
  CHECK(same_bits(out1, out4));
  embedding_backward(serial, {table1}, {positions1}, p.dout, p.input(), p.dropout);
  embedding_backward(parallel, {table4}, {positions4}, p.dout, p.input(), p.dropout);
  CHECK(same_bits(table1, table4));
  CHECK(same_bits(positions1, positions4));
}

TEST_CASE("embedding: a position beyond the table throws, and so do wrong shapes; meta counts") {
  Stream stream(Device::cpu), counted(Device::meta);
  Problem p{1, 3, 4};
  Owned out(p.shape), short_table({2, 4});
  p.positions.tensor().data<std::int32_t>()[1] = 2;
  CHECK_THROWS_WITH_AS(embedding_forward(stream, out, p.input(), p.table, short_table, {}),
                       doctest::Contains("position"), Error);
  p.positions.tensor().data<std::int32_t>()[1] = -1;
  CHECK_THROWS_AS(embedding_backward(stream, {}, {p.position_table}, p.dout, p.input(), {}), Error);
  const EmbeddingInput in{meta({2, 3}, DType::i32), meta({2, 3}, DType::i32)};
  embedding_forward(counted, meta({2, 3, 4}), in, meta({9, 4}), meta({5, 4}), {});
  CHECK(counted.counters().bytes == 4.0 * (3 * 24 + 2 * 6));
  CHECK_THROWS_AS(embedding_forward(counted, meta({2, 3, 4}), in, meta({9, 5}), {}, {}), Error);
  CHECK_THROWS_AS(embedding_forward(counted, meta({2, 4, 4}), in, meta({9, 4}), {}, {}), Error);
  CHECK_THROWS_AS(embedding_backward(counted, {meta({9, 3})}, {}, meta({2, 3, 4}), in, {}), Error);
}
