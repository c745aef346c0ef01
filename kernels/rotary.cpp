#include "kernels/rotary.h"

#include "kernels/dispatch.h"

namespace mtl {

namespace {

/// Checks the operands and returns the bytes that a rotation moves.
double check_rotation(const HeadSlice& heads, const Tensor& angles) {
  check_slice("rotary heads", heads);
  require(angles.shape().rank() == 3, "rotary angles: expected (B T, 2, pairs), got ", angles.shape());
  const Tensor& t = heads.tensor;
  const std::int64_t pairs = angles.size(2);
  expect_tensor("rotary angles", angles, DType::f32, {t.size(0) * t.size(1), 2, pairs});
  require(pairs >= 1 && 2 * pairs <= t.size(4), "rotary: ", pairs, " pairs do not fit into heads of ", t.size(4),
          " elements");
  const double rotated = 2 * double(pairs) / double(t.size(4));
  return 2 * rotated * double(heads.bytes()) + double(angles.bytes());
}

}  // namespace

void rotary_angles(Stream& stream, Tensor out, Tensor positions, const RotaryFrequencies& frequencies) {
  const int pairs = frequencies.pairs;
  require(pairs >= 1 && pairs <= static_cast<int>(frequencies.values.size()), "rotary: ", pairs,
          " frequencies; at least 1 and at most ", frequencies.values.size(), " are supported");
  expect_tensor("rotary positions", positions, DType::i32, positions.shape());
  expect_tensor("rotary angles", out, DType::f32, {positions.numel(), 2, pairs});
  stream.count(0, double(out.bytes() + positions.bytes()));
  run<cpu::rotary_angles, cuda::rotary_angles>(stream, out, positions, frequencies);
}

void rotary_forward(Stream& stream, const HeadSlice& heads, Tensor angles, bool interleaved) {
  stream.count(0, check_rotation(heads, angles));
  run<cpu::rotary_forward, cuda::rotary_forward>(stream, heads, angles, interleaved);
}

void rotary_backward(Stream& stream, const HeadSlice& heads, Tensor angles, bool interleaved) {
  stream.count(0, check_rotation(heads, angles));
  run<cpu::rotary_backward, cuda::rotary_backward>(stream, heads, angles, interleaved);
}

}  // namespace mtl
