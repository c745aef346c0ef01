#include "kernels/qk_norm_rotary.h"

#include "kernels/dispatch.h"
#include "kernels/stream_types.h"

namespace mtl {

namespace {

/// Checks the operands, and returns the bytes of q and k in x and of what both passes read besides: each is read once.
struct QkNormBytes {
  double heads, others;
};
QkNormBytes check_qk_norm(const Tensor& x, const QkNorm& norm) {
  require(x.shape().rank() == 5 && x.size(3) >= 3 && x.size(4) > 0,
          "qk_norm_rotary x: expected (B, T, G, R + 2, D) with R > 0, got ", x.shape());
  const std::int64_t heads = x.size(3) - 2, dim = x.size(4);
  const HeadSlice q{x, 0, heads}, k{x, heads, 1};
  check_slice("qk_norm_rotary x", q);
  for (const Tensor& gamma : {norm.q_gamma, norm.k_gamma})
    expect_tensor("qk_norm_rotary gamma", gamma, x.dtype(), {dim});
  expect_tensor("qk_norm_rotary q_rstd", norm.q_rstd, DType::f32, q.heads());
  expect_tensor("qk_norm_rotary k_rstd", norm.k_rstd, DType::f32, k.heads());
  const Tensor& angles = norm.angles;
  require(angles.shape().rank() == 3, "qk_norm_rotary angles: expected (B T, 2, pairs), got ", angles.shape());
  const std::int64_t pairs = angles.size(2);
  expect_tensor("qk_norm_rotary angles", angles, DType::f32, {x.size(0) * x.size(1), 2, pairs});
  require(pairs >= 1 && 2 * pairs <= dim, "qk_norm_rotary: ", pairs, " pairs do not fit into heads of ", dim,
          " elements");
  const std::size_t others =
      norm.q_gamma.bytes() + norm.k_gamma.bytes() + norm.q_rstd.bytes() + norm.k_rstd.bytes() + angles.bytes();
  return {double(q.bytes() + k.bytes()), double(others)};
}

}  // namespace

void qk_norm_rotary_forward(Stream& stream, Tensor y, Tensor x, const QkNorm& norm, float eps) {
  const auto [heads, others] = check_qk_norm(x, norm);
  expect_tensor("qk_norm_rotary y", y, x.dtype(), x.shape());
  require(y.raw() == nullptr || y.raw() != x.raw(), "qk_norm_rotary: y is x");  // meta tensors have no address
  stream.count(0, 2 * heads + others);
  run<cpu::qk_norm_rotary_forward, cuda::qk_norm_rotary_forward>(stream, y, x, norm, eps);
}

void qk_norm_rotary_backward(Stream& stream, Arena& scratch, Tensor grad, Grad dq_gamma, Grad dk_gamma, Tensor x,
                             const QkNorm& norm) {
  const auto [heads, others] = check_qk_norm(x, norm);
  expect_tensor("qk_norm_rotary grad", grad, x.dtype(), x.shape());
  expect_grad("qk_norm_rotary dq_gamma", dq_gamma, norm.q_gamma.shape());
  expect_grad("qk_norm_rotary dk_gamma", dk_gamma, norm.k_gamma.shape());
  Arena::Mark mark(scratch);
  const Tensor work = make_work<cpu::qk_norm_rotary_work, cuda::qk_norm_rotary_work>(stream, scratch, x);
  stream.count(0, 3 * heads + others);
  run<cpu::qk_norm_rotary_backward, cuda::qk_norm_rotary_backward>(stream, work, grad, dq_gamma, dk_gamma, x, norm);
}

}  // namespace mtl
