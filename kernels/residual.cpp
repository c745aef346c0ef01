#include "kernels/residual.h"

#include "kernels/dispatch.h"

namespace mtl {

namespace {
void check_hidden(const char* what, const Tensor& tensor, const Dropout& dropout, const RowMap& rows) {
  require(tensor.shape().rank() == 2, what, ": expected (N, C), got ", tensor.shape().text());
  expect_tensor(what, tensor, DType::f32, tensor.shape());
  if (dropout.active()) check_samples(what, rows, tensor.size(0));
}
}  // namespace

void residual_forward(Stream& stream, Tensor out, Tensor residual, Tensor branch, Tensor bias, const Dropout& dropout,
                      const RowMap& rows) {
  check_hidden("residual out", out, dropout, rows);
  expect_tensor("residual input", residual, DType::f32, out.shape());
  expect_tensor("residual branch", branch, DType::f32, out.shape());
  if (bias.exists()) expect_tensor("residual bias", bias, DType::f32, {out.size(-1)});
  stream.count(0, 3 * static_cast<double>(out.bytes()) + static_cast<double>(bias.bytes()));
  run<cpu::residual_forward, cuda::residual_forward>(stream, out, residual, branch, bias, dropout, rows);
}

void residual_backward(Stream& stream, Arena& scratch, Tensor dbranch, Grad dbias, Tensor dout, const Dropout& dropout,
                       const RowMap& rows) {
  check_hidden("residual dout", dout, dropout, rows);
  expect_tensor("residual dbranch", dbranch, DType::f32, dout.shape());
  if (dbias.wanted()) expect_tensor("residual dbias", dbias.tensor, DType::f32, {dout.size(-1)});
  Arena::Mark mark(scratch);
  Tensor work;
  if (dbias.wanted())
    work = make_work<cpu::residual_backward_work, cuda::residual_backward_work>(stream, scratch, dout.row_count(),
                                                                                dout.size(-1));
  stream.count(0, 2 * static_cast<double>(dout.bytes()) + static_cast<double>(dbias.tensor.bytes()));
  run<cpu::residual_backward, cuda::residual_backward>(stream, work, dbranch, dbias, dout, dropout, rows);
}

}  // namespace mtl
