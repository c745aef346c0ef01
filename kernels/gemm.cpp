#include "kernels/gemm.h"

#include "kernels/dispatch.h"
#include "kernels/stream_types.h"

namespace mtl {

namespace {

/// op(X) viewed as (rows, last axis).
struct MatrixShape {
  std::int64_t rows, columns;
};

MatrixShape shape_of(const char* what, const Operand& operand) {
  require(operand.tensor.exists(), "gemm: operand ", what, " is missing");
  expect_computed(what, operand.tensor);
  MatrixShape stored{1, operand.tensor.size(-1)};
  for (int axis = 0; axis + 1 < operand.tensor.shape().rank(); ++axis) stored.rows *= operand.tensor.size(axis);
  return operand.transposed ? MatrixShape{stored.columns, stored.rows} : stored;
}

void check_epilogue(const Epilogue& epilogue, const Tensor& c, const Operand& a, GradMode mode) {
  require(!epilogue.changes_c() || mode == GradMode::overwrite,
          "gemm: bias and activation epilogues need GradMode::overwrite");
  require(epilogue.aux.exists() == (epilogue.act != Epilogue::Act::none),
          "gemm: an activation and aux must be given together");
  if (epilogue.bias.exists()) expect_tensor("gemm bias", epilogue.bias, c.dtype(), {c.size(-1)});
  if (const Tensor& aux = epilogue.aux; aux.exists())
    expect_tensor("gemm aux", aux.view({aux.row_count(), aux.size(-1)}), c.dtype(), {c.row_count(), c.size(-1)});
  if (!epilogue.dbias.wanted()) return;
  require(a.transposed, "gemm: dbias needs a transposed A");
  expect_grad("gemm dbias", epilogue.dbias, {a.tensor.size(-1)});
}

}  // namespace

void gemm(Stream& stream, Arena& scratch, Tensor c, Operand a, Operand b, GradMode mode, const Epilogue& epilogue) {
  const MatrixShape left = shape_of("gemm A", a), right = shape_of("gemm B", b), out = shape_of("gemm C", {c});
  require(left.columns == right.rows && out.rows == left.rows && out.columns == right.columns, "gemm: C ", c.shape(),
          " is not the product of ", a.tensor.shape(), a.transposed ? " transposed" : "", " and ", b.tensor.shape(),
          b.transposed ? " transposed" : "");
  require(a.tensor.dtype() == b.tensor.dtype(), "gemm: A is ", name_of(a.tensor.dtype()), ", B ",
          name_of(b.tensor.dtype()), "; they must have the same dtype");
  check_epilogue(epilogue, c, a, mode);
  const std::size_t moved = a.tensor.bytes() + b.tensor.bytes() + c.bytes() * (mode == GradMode::accumulate ? 2 : 1) +
                            epilogue.bias.bytes() + epilogue.aux.bytes() + epilogue.dbias.tensor.bytes();
  Arena::Mark mark(scratch);
  Tensor work = make_work<cpu::gemm_work, cuda::gemm_work>(stream, scratch, c, a, b, mode, epilogue);
  stream.count(2.0 * double(out.rows) * double(out.columns) * double(left.columns), double(moved));
  run<cpu::gemm, cuda::gemm>(stream, work, c, a, b, mode, epilogue);
}

}  // namespace mtl
