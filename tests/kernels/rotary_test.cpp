// Rotary positions: angles, and the rotation in both directions.
#include "kernels/rotary.h"

#include "tests/kernels/reference.h"

using namespace mtl;
using namespace mtl::test;

namespace {

RotaryFrequencies frequencies_of(int pairs, double scale = 1) {
  RotaryFrequencies out{.pairs = pairs, .scale = scale};
  for (int i = 0; i < pairs; ++i) out.values[static_cast<std::size_t>(i)] = std::pow(1000.0, -double(i) / pairs);
  return out;
}

/// Heads [first, first + count) in each group of a packed tensor, and the angles for its rows. The tests list its
/// numbers in this order.
struct RotaryProblem {
  std::int64_t batch, length, groups, heads, dim, first, count;
  int pairs;
  bool interleaved = false;
  DType dtype = DType::f32;
  Shape shape{batch, length, groups, heads, dim};
  Owned x = random_tensor(dtype, shape, 1);
  Owned positions = random_integers({batch, length}, 0, 2000, 2);
  Owned angles{Shape{batch * length, 2, pairs}};

  HeadSlice slice(const Owned& tensor) const { return {tensor, first, count}; }
  void compute_angles(Stream& stream, double scale = 1) const {
    rotary_angles(stream, angles, positions, frequencies_of(pairs, scale));
  }

  /// Returns x with its heads' pairs rotated in the direction of `sign`.
  std::vector<double> rotated(const Owned& from, double sign) const {
    std::vector<double> out = from.values();
    for (std::int64_t vector = 0; vector < from.numel() / dim; ++vector) {
      const std::int64_t head = vector % heads, row = vector / heads / groups;
      if (head < first || head >= first + count) continue;
      for (std::int64_t i = 0; i < pairs; ++i) {
        const auto at = static_cast<std::size_t>(vector * dim + (interleaved ? 2 * i : i));
        const std::size_t other = at + static_cast<std::size_t>(interleaved ? 1 : pairs);
        const double angle = positions.host<std::int32_t>()[row] * std::pow(1000.0, -double(i) / pairs);
        const double a = out[at], b = out[other];
        out[at] = a * std::cos(angle) - sign * b * std::sin(angle);
        out[other] = b * std::cos(angle) + sign * a * std::sin(angle);
      }
    }
    return out;
  }

  /// Returns true if an element is outside the rotated pairs.
  bool is_unrotated(std::int64_t element) const {
    const std::int64_t head = element / dim % heads;
    return head < first || head >= first + count || element % dim >= 2 * pairs;
  }
};

template <class Body>
void for_each_problem(const Body& body) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const bool interleaved : {false, true}) {
      CAPTURE(interleaved);
      CAPTURE(std::string(name_of(dtype)));
      body(RotaryProblem{1, 1, 1, 1, 2, 0, 1, 1, interleaved, dtype});
      body(RotaryProblem{2, 3, 2, 4, 16, 0, 3, 8, interleaved, dtype});  // queries and key in a packed row
      body(RotaryProblem{3, 5, 1, 3, 7, 1, 1, 3, interleaved, dtype});   // odd: the last element is unchanged
      body(RotaryProblem{2, 9, 3, 5, 48, 1, 3, 6, interleaved, dtype});  // part of each head
      body(RotaryProblem{1, 70, 2, 6, 64, 0, 5, 32, interleaved, dtype});
      body(RotaryProblem{2, 4, 1, 2, 256, 0, 2, 128, interleaved, dtype});
      body(RotaryProblem{1, 33, 4, 1, 80, 0, 1, 37, interleaved, dtype});
    }
  }
}

}  // namespace

TEST_CASE("rotary: angles are rounded once, for positions of any shape, large and negative") {
  Stream stream(kDevice, 2);
  for (const int pairs : {1, 3, 32, 128}) {
    const double scale = pairs == 3 ? 1 : 1.25;
    const RotaryFrequencies frequencies = frequencies_of(pairs, scale);
    for (const Shape& shape : {Shape{6}, Shape{2, 3}}) {
      const Owned positions = integers(shape, {0, 1, 77, 131071, 2000000000, -5});
      Owned angles({6, 2, pairs});
      rotary_angles(stream, angles, positions, frequencies);
      for (std::int64_t n = 0; n < 6; ++n) {
        for (int i = 0; i < pairs; ++i) {
          const double angle = positions.host<std::int32_t>()[n] * frequencies.values[static_cast<std::size_t>(i)];
          CHECK(angles[n * 2 * pairs + i] == static_cast<float>(scale * std::cos(angle)));
          CHECK(angles[n * 2 * pairs + pairs + i] == static_cast<float>(scale * std::sin(angle)));
        }
      }
    }
  }
}

TEST_CASE("rotary: forward and backward equal the reference in every dtype, and unrotated elements keep their bits") {
  Stream stream(kDevice, 2);
  for_each_problem([&](const RotaryProblem& p) {
    CAPTURE(p.shape.text());
    p.compute_angles(stream);
    Owned forward = random_tensor(p.dtype, p.shape, 1), backward = random_tensor(p.dtype, p.shape, 1);
    const double tolerance = rounding_of(p.dtype, kTolerance.elementwise);
    rotary_forward(stream, p.slice(forward), p.angles, p.interleaved);
    CHECK(relative_rms(forward, p.rotated(p.x, 1)) < tolerance);
    rotary_backward(stream, p.slice(backward), p.angles, p.interleaved);
    CHECK(relative_rms(backward, p.rotated(p.x, -1)) < tolerance);
    const std::vector<double> before = p.x.values(), rotated = forward.values(), back = backward.values();
    std::int64_t changed = 0;
    for (std::size_t i = 0; i < before.size(); ++i)
      changed += p.is_unrotated(static_cast<std::int64_t>(i)) && (rotated[i] != before[i] || back[i] != before[i]);
    CHECK(changed == 0);
    rotary_backward(stream, p.slice(forward), p.angles, p.interleaved);
    CHECK(relative_rms(forward, before) < 2 * tolerance);
  });
}

TEST_CASE("rotary: the gradient equals finite differences") {
  Stream stream(kDevice);
  for (const bool interleaved : {false, true}) {
    RotaryProblem p{2, 3, 2, 3, 5, 0, 2, 2, interleaved};
    p.compute_angles(stream, 1.5);
    const Owned weight = random_tensor(p.shape, 3);
    Owned out(p.shape), dx = random_tensor(p.shape, 3);
    const auto loss = [&] {
      std::copy_n(p.x.begin(), p.x.numel(), out.begin());
      rotary_forward(stream, p.slice(out), p.angles, interleaved);
      return weighted_sum(weight, out);
    };
    rotary_backward(stream, p.slice(dx), p.angles, interleaved);
    CHECK(relative_rms(dx, finite_differences(p.x, loss)) < kTolerance.difference);
  }
}

TEST_CASE("rotary: the product of a query and a key depends only on their distance") {
  Stream stream(kDevice);
  for (const bool interleaved : {false, true}) {
    const RotaryProblem p{1, 4, 1, 2, 32, 0, 2, 16, interleaved};
    for (const std::int32_t distance : {0, 1, 13}) {
      std::vector<double> products;
      for (const std::int32_t position : {0, 5, 400}) {
        // A query at one position, and a key `distance` positions before it.
        Owned both({1, 2, 1, 1, 32}), angles({2, 2, 16});
        std::copy_n(p.x.begin(), 64, both.begin());
        rotary_angles(stream, angles, integers({2}, {position + distance, position}), frequencies_of(16));
        rotary_forward(stream, {both}, angles, interleaved);
        double product = 0;
        for (int d = 0; d < 32; ++d) product += static_cast<double>(both[d]) * static_cast<double>(both[32 + d]);
        products.push_back(product);
      }
      CHECK(products[1] == doctest::Approx(products[0]).epsilon(1e-5));
      CHECK(products[2] == doctest::Approx(products[0]).epsilon(1e-5));
    }
  }
}

TEST_CASE("rotary: one thread and four produce the same bits") {
  Stream serial(kDevice, 1), parallel(kDevice, 4);
  for (const bool interleaved : {false, true}) {
    const RotaryProblem p{3, 70, 2, 5, 48, 0, 4, 20, interleaved};
    Owned one = random_tensor(p.shape, 1), four = random_tensor(p.shape, 1), angles({210, 2, 20});
    p.compute_angles(serial);
    rotary_angles(parallel, angles, p.positions, frequencies_of(20));
    CHECK(same_bits(p.angles, angles));
    rotary_forward(serial, p.slice(one), angles, interleaved);
    rotary_forward(parallel, p.slice(four), angles, interleaved);
    CHECK(same_bits(one, four));
    rotary_backward(serial, p.slice(one), angles, interleaved);
    rotary_backward(parallel, p.slice(four), angles, interleaved);
    CHECK(same_bits(one, four));
  }
}

TEST_CASE("rotary: counts on meta; wrong shapes throw") {
  Stream stream(Device::meta);
  const Tensor heads = meta({2, 3, 2, 4, 16}), positions = meta({2, 3}, DType::i32);
  rotary_angles(stream, meta({6, 2, 4}), positions, frequencies_of(4));
  CHECK(stream.counters().bytes == 4.0 * (6 * 2 * 4 + 6));
  stream.reset_counters();
  rotary_forward(stream, {heads, 0, 3}, meta({6, 2, 4}), false);
  CHECK(stream.counters().bytes == 4.0 * (2 * 6 * 2 * 3 * 8 + 6 * 2 * 4));
  rotary_backward(stream, {heads, 0, 3}, meta({6, 2, 8}), true);
  stream.reset_counters();
  const Tensor narrow = meta({2, 3, 2, 4, 16}, DType::bf16);
  rotary_forward(stream, {narrow, 0, 3}, meta({6, 2, 4}), false);
  CHECK(stream.counters().bytes == 2.0 * (2 * 6 * 2 * 3 * 8) + 4.0 * (6 * 2 * 4));
  CHECK_THROWS_AS(rotary_forward(stream, {narrow, 0, 3}, meta({6, 2, 4}, DType::bf16), false), Error);
  CHECK_THROWS_AS(rotary_angles(stream, meta({6, 2, 3}), positions, frequencies_of(4)), Error);
  CHECK_THROWS_AS(rotary_angles(stream, meta({5, 2, 4}), positions, frequencies_of(4)), Error);
  CHECK_THROWS_AS(rotary_angles(stream, meta({6, 2, 4}), meta({6}), frequencies_of(4)), Error);
  CHECK_THROWS_WITH_AS(rotary_angles(stream, meta({6, 2, 129}), positions, {.pairs = 129}), doctest::Contains("128"),
                       Error);
  CHECK_THROWS_AS(rotary_angles(stream, meta({6, 2, 0}), positions, {}), Error);
  CHECK_THROWS_WITH_AS(rotary_forward(stream, {heads, 0, 3}, meta({6, 2, 9}), false), doctest::Contains("do not fit"),
                       Error);
  CHECK_THROWS_AS(rotary_forward(stream, {heads, 2, 3}, meta({6, 2, 4}), false), Error);
  CHECK_THROWS_AS(rotary_forward(stream, {heads, 0, 3}, meta({5, 2, 4}), false), Error);
  CHECK_THROWS_AS(rotary_forward(stream, {heads, 0, 3}, meta({6, 8}), false), Error);
  CHECK_THROWS_AS(rotary_backward(stream, {meta({6, 2, 4, 16}), 0, 3}, meta({6, 2, 4}), false), Error);
}
