#include "kernels/newton_schulz.h"

#include "kernels/dispatch.h"
#include "kernels/stream_types.h"

namespace mtl {

void divide_by_norm(Stream& stream, Tensor out, Tensor in, Tensor sum) {
  expect_computed("divide_by_norm out", out);
  expect_computed("divide_by_norm in", in);
  expect_tensor("divide_by_norm sum", sum, DType::f64, {1});
  require(out.numel() == in.numel(), "divide_by_norm: ", in.numel(), " elements to ", out.numel());
  stream.count(0, double(out.bytes() + in.bytes()));
  run<cpu::divide_by_norm, cuda::divide_by_norm>(stream, out, in, sum);
}

void quintic_polynomial(Stream& stream, Tensor squared, Tensor a, const QuinticStep& step) {
  expect_computed("quintic_polynomial", squared);
  require(squared.shape().rank() == 2 && squared.size(0) == squared.size(1), "quintic_polynomial: ", squared.shape(),
          " is not square");
  expect_tensor("quintic_polynomial a", a, squared.dtype(), squared.shape());
  stream.count(0, 3 * double(squared.bytes()));
  run<cpu::quintic_polynomial, cuda::quintic_polynomial>(stream, squared, a, step);
}

}  // namespace mtl
