// Token and position embedding.
#include "kernels/embedding.h"

#include "tests/kernels/dropout_reference.h"
#include "tests/kernels/reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

struct Problem {
  std::int64_t rows, length, width;
  std::int64_t vocab = 50, begin = 10, held = 30, max_positions = 40;  // this rank holds tokens 10 .. 39
  Shape shape{rows, width};
  Owned tokens = random_integers({rows}, 0, static_cast<std::int32_t>(vocab), 1);
  std::int64_t skipped = 16;  // rows of the micro-batch that other ranks hold
  Owned positions = random_integers({skipped + rows + 3}, 0, static_cast<std::int32_t>(max_positions), 2);
  Owned table = random_tensor({held, width}, 3), position_table = random_tensor({max_positions, width}, 4);
  Owned dout = random_tensor(shape, 5);
  Dropout dropout{0.2f, {9, 8}};
  RowMap map{samples_from(77), skipped, length};

  std::int64_t row(std::int64_t place) const { return tokens.host<std::int32_t>()[place] - begin; }
  bool has_row(std::int64_t place) const { return row(place) >= 0 && row(place) < held; }
  std::int64_t position(std::int64_t place) const { return positions.host<std::int32_t>()[skipped + place]; }
  double mask(std::int64_t place, std::int64_t c) const { return hidden_mask(dropout, map, place, c, width); }
};

struct Size {
  std::int64_t rows, length, width;
};
constexpr Size kSizes[] = {{1, 1, 1}, {6, 3, 7}, {48, 16, 1031}, {128, 64, 256}};

}  // namespace

TEST_CASE("embedding: forward equals the reference, tokens of other ranks give zeros") {
  Stream stream(kDevice, 2);
  for (auto [rows, length, width] : kSizes) {
    Problem p{rows, length, width};
    Owned out = random_tensor(p.shape, 9);
    std::vector<double> looked_up, placed;
    for (std::int64_t i = 0; i < out.numel(); ++i) {
      const std::int64_t place = i / width, c = i % width;
      looked_up.push_back(p.has_row(place) ? static_cast<double>(p.table[p.row(place) * width + c]) : 0.0);
      placed.push_back((looked_up.back() + static_cast<double>(p.position_table[p.position(place) * width + c])) *
                       p.mask(place, c));
    }
    embedding_forward(stream, out, p.tokens, p.begin, p.table);
    CHECK(relative_rms(out, looked_up) == 0);
    positions_forward(stream, out, p.positions, p.position_table, p.dropout, p.map);
    CHECK(relative_rms(out, placed) < kTolerance.elementwise);
  }
}

TEST_CASE("embedding: gradients are summed over places, overwriting and accumulating") {
  Stream stream(kDevice, 2);
  for (auto [rows, length, width] : kSizes) {
    for (GradMode mode : {GradMode::overwrite, GradMode::accumulate}) {
      Problem p{rows, length, width};
      Owned dtable = random_tensor({p.held, width}, 6), dpositions = random_tensor({p.max_positions, width}, 7);
      std::vector<double> tokens = dtable.values(), positions = dpositions.values(), dx;
      if (mode == GradMode::overwrite) {
        tokens.assign(tokens.size(), 0.0);
        positions.assign(positions.size(), 0.0);
      }
      for (std::int64_t i = 0; i < p.dout.numel(); ++i) {
        const std::int64_t place = i / width, c = i % width;
        dx.push_back(p.mask(place, c) * static_cast<double>(p.dout[i]));
        if (p.has_row(place)) tokens[static_cast<std::size_t>(p.row(place) * width + c)] += dx.back();
        positions[static_cast<std::size_t>(p.position(place) * width + c)] += dx.back();
      }
      positions_backward(stream, {dpositions, mode}, p.dout, p.positions, p.dropout, p.map);
      CHECK(relative_rms(p.dout, dx) < kTolerance.elementwise);
      CHECK(relative_rms(dpositions, positions) < kTolerance.elementwise);
      embedding_backward(stream, {dtable, mode}, p.dout, p.tokens, p.begin);
      CHECK(relative_rms(dtable, tokens) < kTolerance.elementwise);
    }
  }
}

TEST_CASE("embedding: gradients equal finite differences") {
  Stream stream(kDevice);
  Problem p{10, 5, 3};
  Owned out(p.shape), dtable({p.held, 3}), dpositions({p.max_positions, 3}), dx = random_tensor(p.shape, 5);
  positions_backward(stream, {dpositions}, dx, p.positions, p.dropout, p.map);
  embedding_backward(stream, {dtable}, dx, p.tokens, p.begin);
  const auto loss = [&] {
    embedding_forward(stream, out, p.tokens, p.begin, p.table);
    positions_forward(stream, out, p.positions, p.position_table, p.dropout, p.map);
    return weighted_sum(p.dout, out);
  };
  CHECK(relative_rms(dtable, finite_differences(p.table, loss)) < kTolerance.difference);
  CHECK(relative_rms(dpositions, finite_differences(p.position_table, loss)) < kTolerance.difference);
}

TEST_CASE("embedding: one thread and four give the same bits") {
  Problem p{400, 100, 259};
  const auto run = [&](int threads) {
    Stream stream(kDevice, threads);
    std::vector<Owned> out;
    out.emplace_back(p.shape);
    out.push_back(random_tensor(p.shape, 5));
    out.emplace_back(Shape{p.held, 259});
    out.emplace_back(Shape{40, 259});
    embedding_forward(stream, out[0], p.tokens, p.begin, p.table);
    positions_forward(stream, out[0], p.positions, p.position_table, p.dropout, p.map);
    positions_backward(stream, {out[3]}, out[1], p.positions, p.dropout, p.map);
    embedding_backward(stream, {out[2]}, out[1], p.tokens, p.begin);
    return out;
  };
  std::vector<Owned> serial = run(1), parallel = run(4);
  for (std::size_t i = 0; i < serial.size(); ++i) CHECK(same_bits(serial[i], parallel[i]));
}

TEST_CASE("embedding: a position beyond the table throws, and so do wrong shapes; meta counts") {
  Stream stream(kDevice), counted(Device::meta);
  Problem p{3, 3, 4};
  Owned x(p.shape), short_table({2, 4});
  p.positions.host<std::int32_t>()[p.skipped + 1] = 2;
  CHECK_THROWS_WITH_AS(positions_forward(stream, x, p.positions, short_table, {}, p.map), doctest::Contains("position"),
                       Error);
  p.positions.host<std::int32_t>()[p.skipped + 1] = -1;
  CHECK_THROWS_AS(positions_backward(stream, {p.position_table}, x, p.positions, {}, p.map), Error);
  const Tensor indices = meta({6}, DType::i32);
  embedding_forward(counted, meta({6, 4}), indices, 0, meta({9, 4}));
  CHECK(counted.counters().bytes == 4.0 * (2 * 24 + 6));
  CHECK_THROWS_AS(embedding_forward(counted, meta({6, 4}), indices, 0, meta({9, 5})), Error);
  CHECK_THROWS_AS(embedding_forward(counted, meta({8, 4}), indices, 0, meta({9, 4})), Error);
  CHECK_THROWS_AS(embedding_backward(counted, {meta({9, 3})}, meta({6, 4}), indices, 0), Error);
}
