#include "kernels/residual.h"

#include "kernels/cpu.h"

namespace mtl {

namespace {
void check_hidden(const char* what, const Tensor& tensor) {
  require(tensor.shape().rank() == 2, what, ": expected (N, C), got ", tensor.shape().text());
  expect_tensor(what, tensor, DType::f32, tensor.shape());
}
}  // namespace

void residual_forward(Stream& stream, Tensor out, Tensor residual, Tensor branch, Tensor bias, const Dropout& dropout) {
  check_hidden("residual out", out);
  expect_tensor("residual input", residual, DType::f32, out.shape());
  expect_tensor("residual branch", branch, DType::f32, out.shape());
  if (bias.exists()) expect_tensor("residual bias", bias, DType::f32, {out.size(-1)});
  stream.count(0, 3 * static_cast<double>(out.bytes()) + static_cast<double>(bias.bytes()));
  if (stream.is_meta()) return;
  cpu::residual_forward(stream, out, residual, branch, bias, dropout);
}

void residual_backward(Stream& stream, Arena& scratch, Tensor dbranch, Grad dbias, Tensor dout,
                       const Dropout& dropout) {
  check_hidden("residual dout", dout);
  expect_tensor("residual dbranch", dbranch, DType::f32, dout.shape());
  if (dbias.wanted()) expect_tensor("residual dbias", dbias.tensor, DType::f32, {dout.size(-1)});
  Arena::Mark mark(scratch);
  Tensor partials;
  if (dbias.wanted()) partials = scratch.make(DType::f32, {row_sum_blocks(dout.row_count()).number(), dout.size(-1)});
  stream.count(0, 2 * static_cast<double>(dout.bytes()) + static_cast<double>(dbias.tensor.bytes()));
  if (stream.is_meta()) return;
  cpu::residual_backward(stream, partials, dbranch, dbias, dout, dropout);
}

}  // namespace mtl
