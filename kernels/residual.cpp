#include "kernels/residual.h"

#include "kernels/dispatch.h"
#include "kernels/stream_types.h"

namespace mtl {

namespace {
/// Checks the branch and `hidden`, which belongs to the residual stream, or the gradients of both.
void check_hidden(const char* what, const Tensor& hidden, const Tensor& branch, const Dropout& dropout,
                  const RowMap& rows) {
  require(hidden.shape().rank() == 2, what, ": expected (N, C), got ", hidden.shape());
  expect_stream(what, hidden.dtype(), branch.dtype());
  expect_tensor(what, branch, branch.dtype(), hidden.shape());
  if (dropout.active()) check_samples(what, rows, hidden.size(0));
}
}  // namespace

void ResidualSum::check(const Tensor& out, DType compute) const {
  expect_tensor("residual branch", branch, compute, out.shape());
  check_hidden("residual branch", out, branch, dropout, rows);
  expect_tensor("residual input", residual, out.dtype(), out.shape());
  if (bias.exists()) expect_tensor("residual bias", bias, branch.dtype(), {out.size(-1)});
}

void check_stream_grad(const char* what, const StreamGrad& dx, const Tensor& x, const Tensor& dy) {
  require(dx.wanted() || !dx.skip.exists(), what, ": a skip gradient without a result");
  if (dx.wanted()) expect_tensor(what, dx.tensor, x.dtype(), x.shape());
  if (dx.skip.exists()) expect_tensor(what, dx.skip, x.dtype(), x.shape());
  require(!dx.dbias.wanted() || dx.skip.exists(), what, ": the gradient of a bias without a skip gradient");
  expect_grad(what, dx.dbias, {x.size(-1)});
  expect_in_place(what, dx.tensor, dy);
}

void residual_forward(Stream& stream, Tensor out, const ResidualSum& sum) {
  sum.check(out, sum.branch.dtype());
  stream.count(0, double(out.bytes() + sum.bytes()));
  run<cpu::residual_forward, cuda::residual_forward>(stream, out, sum);
}

void residual_backward(Stream& stream, Arena& scratch, Tensor dbranch, Grad dbias, Tensor dout, const Dropout& dropout,
                       const RowMap& rows) {
  require(dbranch.exists() || (dbias.wanted() && !dropout.active()), "residual dbranch is absent");
  check_hidden("residual dbranch", dout, dbranch.exists() ? dbranch : dout, dropout, rows);
  expect_in_place("residual dbranch", dbranch, dout);
  expect_grad("residual dbias", dbias, {dout.size(-1)});
  Arena::Mark mark(scratch);
  const std::int64_t width = dout.size(-1);
  const Tensor work = make_row_sums(stream, scratch, dbias.wanted(), dout.row_count(), width, width);
  stream.count(0, double(dout.bytes() + dbranch.bytes() + dbias.tensor.bytes()));
  run<cpu::residual_backward, cuda::residual_backward>(stream, work, dbranch, dbias, dout, dropout, rows);
}

}  // namespace mtl
