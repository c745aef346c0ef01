#include "kernels/embedding.h"

#include "kernels/dispatch.h"

namespace mtl {

namespace {

void check_operands(const char* what, const Tensor& hidden, const Tensor& indices, const Tensor& table) {
  require(hidden.shape().rank() == 2, what, ": expected (N, C), got ", hidden.shape().text());
  expect_tensor(what, hidden, DType::f32, hidden.shape());
  expect_tensor(what, indices, DType::i32, {hidden.size(0)});
  expect_tensor(what, table, DType::f32, {table.size(0), hidden.size(1)});
}

/// Each place reads its row, and reads and writes a row of the gradient, which is cleared first when it is overwritten.
double scatter_bytes(const Tensor& dout, const Grad& dtable) {
  double cleared = dtable.mode == GradMode::overwrite ? static_cast<double>(dtable.tensor.bytes()) : 0;
  return 3 * static_cast<double>(dout.bytes()) + cleared;
}

}  // namespace

void embedding_forward(Stream& stream, Tensor out, Tensor tokens, std::int64_t vocab_begin, Tensor table) {
  check_operands("embedding", out, tokens, table);
  stream.count(0, 2 * static_cast<double>(out.bytes()) + static_cast<double>(tokens.bytes()));
  run<cpu::embedding_forward, cuda::embedding_forward>(stream, out, tokens, vocab_begin, table);
}

void embedding_backward(Stream& stream, Grad dtable, Tensor dout, Tensor tokens, std::int64_t vocab_begin) {
  check_operands("embedding gradient", dout, tokens, dtable.tensor);
  stream.count(0, scatter_bytes(dout, dtable) + static_cast<double>(tokens.bytes()));
  run<cpu::embedding_backward, cuda::embedding_backward>(stream, dtable, dout, tokens, vocab_begin);
}

void positions_forward(Stream& stream, Tensor x, Tensor positions, Tensor table, const Dropout& dropout) {
  check_operands("positions", x, positions, table);
  stream.count(0, 3 * static_cast<double>(x.bytes()) + static_cast<double>(positions.bytes()));
  run<cpu::positions_forward, cuda::positions_forward>(stream, x, positions, table, dropout);
}

void positions_backward(Stream& stream, Grad dtable, Tensor dx, Tensor positions, const Dropout& dropout) {
  check_operands("positions gradient", dx, positions, dtable.tensor);
  stream.count(0, scatter_bytes(dx, dtable) + static_cast<double>(dx.bytes() + positions.bytes()));
  run<cpu::positions_backward, cuda::positions_backward>(stream, dtable, dx, positions, dropout);
}

}  // namespace mtl
