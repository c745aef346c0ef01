#include "kernels/activation.h"

#include "kernels/dispatch.h"
#include "kernels/stream_types.h"

namespace mtl {

namespace {
/// Checks a gated MLP's operands; `half` (N, F) is the result or its gradient.
void check_gated(const char* what, const Tensor& half, const Tensor& pre) {
  require(half.shape().rank() == 2, what, ": expected (N, F), got ", half.shape());
  expect_computed(what, half);
  expect_tensor("gated pre", pre, half.dtype(), {half.size(0), 2 * half.size(1)});
}
}  // namespace

void gated_forward(Stream& stream, Tensor out, Tensor pre, Activation activation) {
  check_gated("gated out", out, pre);
  stream.count(0, double(out.bytes() + pre.bytes()));
  run<cpu::gated_forward, cuda::gated_forward>(stream, out, pre, activation);
}

void gated_backward(Stream& stream, Tensor dpre, Tensor dout, Tensor pre, Activation activation) {
  check_gated("gated dout", dout, pre);
  expect_tensor("gated dpre", dpre, pre.dtype(), pre.shape());
  stream.count(0, double(dout.bytes() + pre.bytes() + dpre.bytes()));
  run<cpu::gated_backward, cuda::gated_backward>(stream, dpre, dout, pre, activation);
}

}  // namespace mtl
