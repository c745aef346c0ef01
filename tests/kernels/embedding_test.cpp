// Embedding of tokens and positions.
#include "kernels/embedding.h"

#include <limits>

#include "tests/kernels/dropout_reference.h"
#include "tests/kernels/reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

struct EmbeddingProblem {
  std::int64_t rows, length, width;
  StreamTypes types = kStreamTypes[0];
  std::int64_t vocab = 50, begin = 10, held = 30, max_positions = 40;  // this rank holds tokens 10 .. 39
  Shape shape{rows, width};
  Owned tokens = random_integers({rows}, 0, static_cast<std::int32_t>(vocab), 1);
  std::int64_t skipped = 16;  // rows of this micro-batch that are on other ranks
  Owned positions = random_integers({skipped + rows + 3}, 0, static_cast<std::int32_t>(max_positions), 2);
  Owned table = random_tensor(types.compute, {held, width}, 3);
  Owned position_table = random_tensor(types.compute, {max_positions, width}, 4);
  Owned dout = random_tensor(types.stream, shape, 5);
  Dropout dropout{0.2f, {9, 8}};
  RowMap map{samples_from(77), skipped, length};

  std::int64_t row(std::int64_t place) const { return tokens.host<std::int32_t>()[place] - begin; }
  bool has_row(std::int64_t place) const { return row(place) >= 0 && row(place) < held; }
  std::int64_t position(std::int64_t place) const { return positions.host<std::int32_t>()[skipped + place]; }
  double mask(std::int64_t place, std::int64_t c) const { return hidden_mask(dropout, map, place, c, width); }
};

struct EmbeddingSize {
  std::int64_t rows, length, width;
};
constexpr EmbeddingSize kEmbeddingSizes[] = {{1, 1, 1}, {6, 3, 7}, {8, 4, 12}, {48, 16, 1031}, {128, 64, 256}};

}  // namespace

TEST_CASE("embedding: forward equals the reference, and tokens of other ranks produce zeros") {
  Stream stream(kDevice, 2);
  for (auto [rows, length, width] : kEmbeddingSizes) {
    for (const StreamTypes types : kStreamTypes) {
      EmbeddingProblem p{rows, length, width, types};
      Owned out = random_tensor(types.stream, p.shape, 9);
      const std::vector<double> table = p.table.values(), positions = p.position_table.values();
      std::vector<double> looked_up, placed;
      for (std::int64_t i = 0; i < out.numel(); ++i) {
        const std::int64_t place = i / width, c = i % width;
        looked_up.push_back(p.has_row(place) ? table[static_cast<std::size_t>(p.row(place) * width + c)] : 0.0);
        const double position = positions[static_cast<std::size_t>(p.position(place) * width + c)];
        placed.push_back((looked_up.back() + position) * p.mask(place, c));
      }
      embedding_forward(stream, out, p.tokens, p.begin, p.table);
      CHECK(relative_rms(out, looked_up) == 0);
      positions_forward(stream, out, p.positions, p.position_table, p.dropout, p.map);
      CHECK(relative_rms(out, placed) < rounding_of(types.stream, kTolerance.elementwise));
    }
  }
}

namespace {

void check_embedding_gradients(const EmbeddingProblem& p, GradMode mode, DType grads) {
  Stream stream(kDevice, 2);
  Arena scratch(kDevice, "scratch", 1 << 16);
  Owned dtable = random_tensor(grads, {p.held, p.width}, 6);
  Owned dpositions = random_tensor(grads, {p.max_positions, p.width}, 7);
  std::vector<double> tokens = dtable.values(), positions = dpositions.values(), dx;
  if (mode == GradMode::overwrite) {
    std::ranges::fill(tokens, 0.0);
    std::ranges::fill(positions, 0.0);
  }
  const std::vector<double> dout = p.dout.values();
  for (std::int64_t i = 0; i < p.dout.numel(); ++i) {
    const std::int64_t place = i / p.width, c = i % p.width;
    dx.push_back(p.mask(place, c) * dout[static_cast<std::size_t>(i)]);
    positions[static_cast<std::size_t>(p.position(place) * p.width + c)] += dx.back();
  }
  positions_backward(stream, scratch, {dpositions, mode}, p.dout, p.positions, p.dropout, p.map);
  CHECK(relative_rms(p.dout, dx) < rounding_of(p.types.stream, kTolerance.elementwise));
  CHECK(relative_rms(dpositions, positions) < rounding_of(grads, kTolerance.elementwise));
  const std::vector<double> given = p.dout.values();  // the rounded dx
  for (std::int64_t i = 0; i < p.dout.numel(); ++i) {
    const std::int64_t place = i / p.width, c = i % p.width;
    if (p.has_row(place))
      tokens[static_cast<std::size_t>(p.row(place) * p.width + c)] += given[static_cast<std::size_t>(i)];
  }
  embedding_backward(stream, scratch, {dtable, mode}, p.dout, p.tokens, p.begin);
  CHECK(relative_rms(dtable, tokens) < rounding_of(grads, kTolerance.elementwise));
}

}  // namespace

TEST_CASE("embedding: gradients are summed over positions, overwriting and accumulating, in every dtype") {
  for (auto [rows, length, width] : kEmbeddingSizes) {
    for (const StreamTypes types : kStreamTypes) {
      for (const DType grads : {DType::f32, DType::bf16, DType::f16}) {
        for (GradMode mode : {GradMode::overwrite, GradMode::accumulate}) {
          CAPTURE(width);
          CAPTURE(std::string(name_of(types.stream)));
          CAPTURE(std::string(name_of(grads)));
          check_embedding_gradients({rows, length, width, types}, mode, grads);
        }
      }
    }
  }
}

TEST_CASE("embedding: a 16-bit gradient of 3000 positions of one row is their sum, rounded once") {
  Stream stream(kDevice, 2);
  Arena scratch(kDevice, "scratch", 1 << 16);
  const std::int64_t places = 3000;
  const Owned ones = filled({places, 5}, 1), tokens = integers({places}, {});
  for (const DType grads : {DType::bf16, DType::f16}) {
    Owned dtable(grads, {2, 5}), dpositions(grads, {2, 5});
    embedding_backward(stream, scratch, {dtable}, ones, tokens, 0);
    positions_backward(stream, scratch, {dpositions}, ones, tokens, {}, {});
    for (const Owned* table : {&dtable, &dpositions}) {
      const std::vector<double> sums = table->values();
      CHECK(sums[3] == doctest::Approx(3000).epsilon(0x1p-8));
      CHECK(sums[5] == 0);
    }
  }
}

TEST_CASE("embedding: a large vocabulary with rows of one position and of many; a slice of it has the same bits") {
  Stream stream(kDevice, 2);
  Arena scratch(kDevice, "scratch", 1 << 20);
  const std::int64_t places = 5000, vocab = 10000, width = 8;
  Owned tokens = random_integers({places}, 0, static_cast<std::int32_t>(vocab), 1);
  for (std::int64_t i = 0; i < places; ++i)
    if (i % 3 != 0) tokens.host<std::int32_t>()[i] = static_cast<std::int32_t>(4242 + i % 10 / 4);
  const Owned dout = random_tensor({places, width}, 2);
  const std::vector<double> given = dout.values();
  std::vector<double> expected(static_cast<std::size_t>(vocab * width));
  for (std::int64_t i = 0; i < places * width; ++i)
    expected[static_cast<std::size_t>(tokens.host<std::int32_t>()[i / width] * width + i % width)] +=
        given[static_cast<std::size_t>(i)];
  for (const DType grads : {DType::f32, DType::bf16}) {
    Owned whole(grads, {vocab, width});
    embedding_backward(stream, scratch, {whole}, dout, tokens, 0);
    CHECK(relative_rms(whole, expected) < rounding_of(grads, kTolerance.reduction));
    for (auto [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, 4242}, {4242, 4243}, {4200, vocab}}) {
      Owned slice(grads, {end - begin, width});
      embedding_backward(stream, scratch, {slice}, dout, tokens, begin);
      CHECK(same_bits(slice, whole.tensor().rows(begin, end - begin)));
    }
  }
}

TEST_CASE("embedding: the positions of a row are added in order") {
  Stream stream(kDevice, 2);
  Arena scratch(kDevice, "scratch", 1 << 18);
  const std::int64_t rows = 1000;
  Owned tokens(DType::i32, {3 * rows}), dout({3 * rows, 2}), dtable = random_tensor({rows, 2}, 1);
  for (std::int64_t i = 0; i < 3 * rows; ++i) {
    const std::int64_t third = i / rows;  // each row occurs once in each third
    tokens.host<std::int32_t>()[i] = static_cast<std::int32_t>(i * (third == 0 ? 7 : third == 1 ? 11 : 13) % rows);
    // Adding 1 to 2^24 loses the 1, so only this order gives 0.
    for (std::int64_t c : {0, 1}) dout[2 * i + c] = third == 0 ? 0x1p24f : third == 1 ? 1 : -0x1p24f;
  }
  embedding_backward(stream, scratch, {dtable}, dout, tokens, 0);
  CHECK(std::ranges::count(dtable.values(), 0.0) == 2 * rows);
}

TEST_CASE("embedding: a device that cannot refuse an invalid position adds nothing for it") {
  if (device_checks_indices()) return;
  Stream stream(kDevice);
  Arena scratch(kDevice, "scratch", 1 << 16);
  EmbeddingProblem p{3, 3, 4};
  for (std::int32_t bad : {-1, 40, std::numeric_limits<std::int32_t>::max()}) {
    p.positions.host<std::int32_t>()[p.skipped + 1] = bad;
    Owned x = random_tensor(p.shape, 6), dx = random_tensor(p.shape, 6), dtable({p.max_positions, 4});
    const std::vector<double> given = x.values(), table = p.position_table.values();
    std::vector<double> placed, masked, sums(table.size());
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const std::int64_t place = i / 4, c = i % 4;
      const auto at = static_cast<std::size_t>(p.position(place) * 4 + c);
      masked.push_back(given[static_cast<std::size_t>(i)] * p.mask(place, c));
      placed.push_back(masked.back() + (place == 1 ? 0 : table[at] * p.mask(place, c)));
      if (place != 1) sums[at] += masked.back();
    }
    positions_forward(stream, x, p.positions, p.position_table, p.dropout, p.map);
    CHECK(relative_rms(x, placed) < kTolerance.elementwise);
    positions_backward(stream, scratch, {dtable}, dx, p.positions, p.dropout, p.map);
    CHECK(relative_rms(dx, masked) < kTolerance.elementwise);
    CHECK(relative_rms(dtable, sums) < kTolerance.elementwise);
  }
}

TEST_CASE("embedding: the gradient of positions that do not restart has the bits of any positions'") {
  struct Case {
    std::int64_t sequences, held, width;  // positions of each sequence that the rank holds
    SequencePart part;
    std::int64_t skipped, rows;  // of these sequences
  };
  for (const Case& c : {Case{3, 8, 12, {}, 0, 24}, Case{70, 4, 40, {}, 0, 280}, Case{33, 6, 264, {}, 0, 198},
                        Case{5, 7, 9, {}, 3, 20}, Case{5, 7, 9, {}, 8, 3}, Case{4, 8, 16, {1, 4}, 0, 32},
                        Case{40, 6, 8, {0, 2}, 7, 200}, Case{1, 1, 1, {}, 0, 1}}) {
    for (const float dropped : {0.0f, 0.3f}) {
      for (const DType grads : {DType::f32, DType::bf16}) {
        for (const GradMode mode : {GradMode::overwrite, GradMode::accumulate}) {
          CAPTURE(c.sequences);
          CAPTURE(c.held);
          CAPTURE(c.skipped);
          Stream stream(kDevice, 2);
          Arena scratch(kDevice, "scratch", 1 << 16);
          const Owned samples(DType::i64, {c.sequences}), positions(DType::i32, {c.sequences, c.held});
          RowMap map{samples, c.skipped, c.held, c.part};
          const std::int64_t length = map.seq_length();
          for (std::int64_t i = 0; i < c.sequences; ++i) samples.host<std::int64_t>()[i] = 90 + i;
          for (std::int64_t i = 0; i < positions.numel(); ++i)
            positions.host<std::int32_t>()[i] = static_cast<std::int32_t>(c.part.position(i % c.held, c.held));
          const Owned dx = random_tensor(DType::bf16, {c.rows, c.width}, 1), dx_of_any = rounded(dx, DType::bf16);
          const Owned dtable = random_tensor(grads, {length + 2, c.width}, 2), dtable_of_any = rounded(dtable, grads);
          const Dropout dropout{dropped, {5, 6}};
          positions_backward(stream, scratch, {dtable_of_any, mode}, dx_of_any, positions, dropout, map);
          map.resets_positions = false;
          positions_backward(stream, scratch, {dtable, mode}, dx, positions, dropout, map);
          CHECK(same_bits(dtable, dtable_of_any));
          CHECK(same_bits(dx, dx_of_any));
        }
      }
    }
  }
}

TEST_CASE("embedding: positions that do not restart need no scratch memory on a GPU, and a row of the table each") {
  Stream stream(Device::meta, 1, Device::cuda);
  Arena scratch(Device::meta, "scratch", 0);
  const RowMap map{.rows_per_sequence = 3, .resets_positions = false};
  const Tensor indices = meta({500, 3}, DType::i32), dx = meta({1500, 4});
  positions_backward(stream, scratch, {meta({3, 4})}, dx, indices, {}, map);
  CHECK(scratch.peak() < 256);  // mirrored operators ask for a little
  CHECK_THROWS_WITH_AS(positions_backward(stream, scratch, {meta({2, 4})}, dx, indices, {}, map),
                       doctest::Contains("sequences have 3 positions, the table"), Error);
}

TEST_CASE("embedding: gradients equal finite differences") {
  Stream stream(kDevice);
  Arena scratch(kDevice, "scratch", 1 << 16);
  EmbeddingProblem p{10, 5, 3};
  Owned out(p.shape), dtable({p.held, 3}), dpositions({p.max_positions, 3}), dx = random_tensor(p.shape, 5);
  positions_backward(stream, scratch, {dpositions}, dx, p.positions, p.dropout, p.map);
  embedding_backward(stream, scratch, {dtable}, dx, p.tokens, p.begin);
  const auto loss = [&] {
    embedding_forward(stream, out, p.tokens, p.begin, p.table);
    positions_forward(stream, out, p.positions, p.position_table, p.dropout, p.map);
    return weighted_sum(p.dout, out);
  };
  CHECK(relative_rms(dtable, finite_differences(p.table, loss)) < kTolerance.difference);
  CHECK(relative_rms(dpositions, finite_differences(p.position_table, loss)) < kTolerance.difference);
}

TEST_CASE("embedding: one thread and four produce the same bits") {
  EmbeddingProblem p{400, 100, 259};
  const auto run = [&](int threads, DType grads) {
    Stream stream(kDevice, threads);
    Arena scratch(kDevice, "scratch", 1 << 16);
    std::vector<Owned> out;
    out.emplace_back(p.shape);
    out.push_back(random_tensor(p.shape, 5));
    out.emplace_back(grads, Shape{p.held, 259});
    out.emplace_back(grads, Shape{40, 259});
    embedding_forward(stream, out[0], p.tokens, p.begin, p.table);
    positions_forward(stream, out[0], p.positions, p.position_table, p.dropout, p.map);
    positions_backward(stream, scratch, {out[3]}, out[1], p.positions, p.dropout, p.map);
    embedding_backward(stream, scratch, {out[2]}, out[1], p.tokens, p.begin);
    return out;
  };
  for (const DType grads : {DType::f32, DType::bf16}) {
    std::vector<Owned> serial = run(1, grads), parallel = run(4, grads);
    for (std::size_t i = 0; i < serial.size(); ++i) CHECK(same_bits(serial[i], parallel[i]));
  }
}

TEST_CASE("embedding: a position beyond the table and wrong shapes throw; counts on meta") {
  Stream stream(kDevice), counted(Device::meta, 1, kDevice);
  Arena scratch(Device::meta, "scratch", 0);
  EmbeddingProblem p{3, 3, 4};
  Owned x(p.shape), short_table({2, 4});
  if (device_checks_indices()) {
    p.positions.host<std::int32_t>()[p.skipped + 1] = 2;
    CHECK_THROWS_WITH_AS(positions_forward(stream, x, p.positions, short_table, {}, p.map),
                         doctest::Contains("position"), Error);
    p.positions.host<std::int32_t>()[p.skipped + 1] = -1;
    CHECK_THROWS_AS(positions_backward(stream, scratch, {p.position_table}, x, p.positions, {}, p.map), Error);
  }
  const Tensor indices = meta({6}, DType::i32);
  embedding_forward(counted, meta({6, 4}), indices, 0, meta({9, 4}));
  CHECK(counted.counters().bytes == 4.0 * (2 * 24 + 6));
  counted.reset_counters();
  const Tensor wide = meta({6, 4}), narrow = meta({6, 4}, DType::bf16), table = meta({9, 4}, DType::bf16);
  embedding_forward(counted, wide, indices, 0, table);
  positions_forward(counted, wide, indices, table, {}, {});
  CHECK(counted.counters().bytes == 24 * (4 + 2) + 24 + 24 * (4 + 4 + 2) + 24);
  counted.reset_counters();
  embedding_backward(counted, scratch, {table, GradMode::accumulate}, wide, indices, 0);
  positions_backward(counted, scratch, {meta({9, 4})}, narrow, indices, {}, {});
  CHECK(counted.counters().bytes == 24 * (4 + 2 + 2) + 24 + 24 * (2 + 4 + 4) + 36 * 4 + 24);
  counted.reset_counters();
  // More places than rows: each row is read and written once. With dropout, dx is written, too.
  const Tensor samples = meta({6}, DType::i64);
  positions_backward(counted, scratch, {meta({2, 4}), GradMode::accumulate}, narrow, indices, {0.1f, {1, 2}},
                     {samples, 0, 1});
  CHECK(counted.counters().bytes == 24 * (2 + 2) + 2 * 8 * 4 + 24);
  CHECK(scratch.peak() > 0);
  CHECK(scratch.used() == 0);
  CHECK_THROWS_AS(embedding_forward(counted, narrow, indices, 0, meta({9, 4})), Error);
  CHECK_THROWS_AS(positions_forward(counted, narrow, indices, meta({9, 4}), {}, {}), Error);
  CHECK_THROWS_AS(embedding_forward(counted, meta({6, 4}, DType::f64), indices, 0, meta({9, 4})), Error);
  CHECK_THROWS_AS(embedding_backward(counted, scratch, {meta({9, 4}, DType::f64)}, wide, indices, 0), Error);
  CHECK_THROWS_AS(embedding_forward(counted, meta({6, 4}), indices, 0, meta({9, 5})), Error);
  CHECK_THROWS_AS(embedding_forward(counted, meta({8, 4}), indices, 0, meta({9, 4})), Error);
  CHECK_THROWS_AS(embedding_backward(counted, scratch, {meta({9, 3})}, meta({6, 4}), indices, 0), Error);
}
