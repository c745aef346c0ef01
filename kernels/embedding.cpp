#include "kernels/embedding.h"

#include "kernels/dispatch.h"

namespace mtl {

namespace {

void check_operands(const char* what, const Tensor& hidden, const Tensor& table) {
  require(hidden.shape().rank() == 2, what, ": expected (N, C), got ", hidden.shape().text());
  expect_tensor(what, hidden, DType::f32, hidden.shape());
  expect_tensor(what, table, DType::f32, {table.size(0), hidden.size(1)});
}

void check_tokens(const char* what, const Tensor& hidden, const Tensor& tokens, const Tensor& table) {
  check_operands(what, hidden, table);
  expect_tensor(what, tokens, DType::i32, {hidden.size(0)});
}

/// Returns the bytes of the positions that are read.
double check_positions(const char* what, const Tensor& hidden, const Tensor& positions, const Tensor& table,
                       const Dropout& dropout, const RowMap& rows) {
  if (table.exists()) check_operands(what, hidden, table);
  expect_tensor(what, positions, DType::i32, positions.shape());
  const std::int64_t count = hidden.size(0);
  require(rows.first_row >= 0 && rows.first_row + count <= positions.numel(), what, ": rows ", rows.first_row, " to ",
          rows.first_row + count, " are not within ", positions.numel(), " positions");
  if (dropout.active()) check_samples(what, rows, count);
  return table.exists() ? static_cast<double>(count) * static_cast<double>(size_of(DType::i32)) : 0;
}

/// Each place reads its row, and reads and writes a row of the gradient, which is cleared first when it is overwritten.
double scatter_bytes(const Tensor& dout, const Grad& dtable) {
  double cleared = dtable.mode == GradMode::overwrite ? static_cast<double>(dtable.tensor.bytes()) : 0;
  return 3 * static_cast<double>(dout.bytes()) + cleared;
}

}  // namespace

void embedding_forward(Stream& stream, Tensor out, Tensor tokens, std::int64_t vocab_begin, Tensor table) {
  check_tokens("embedding", out, tokens, table);
  stream.count(0, 2 * static_cast<double>(out.bytes()) + static_cast<double>(tokens.bytes()));
  run<cpu::embedding_forward, cuda::embedding_forward>(stream, out, tokens, vocab_begin, table);
}

void embedding_backward(Stream& stream, Grad dtable, Tensor dout, Tensor tokens, std::int64_t vocab_begin) {
  check_tokens("embedding gradient", dout, tokens, dtable.tensor);
  stream.count(0, scatter_bytes(dout, dtable) + static_cast<double>(tokens.bytes()));
  run<cpu::embedding_backward, cuda::embedding_backward>(stream, dtable, dout, tokens, vocab_begin);
}

void positions_forward(Stream& stream, Tensor x, Tensor positions, Tensor table, const Dropout& dropout,
                       const RowMap& rows) {
  const double read = check_positions("positions", x, positions, table, dropout, rows);
  if (!table.exists() && !dropout.active()) return;
  stream.count(0, (table.exists() ? 3 : 2) * static_cast<double>(x.bytes()) + read);
  run<cpu::positions_forward, cuda::positions_forward>(stream, x, positions, table, dropout, rows);
}

void positions_backward(Stream& stream, Grad dtable, Tensor dx, Tensor positions, const Dropout& dropout,
                        const RowMap& rows) {
  const double read = check_positions("positions gradient", dx, positions, dtable.tensor, dropout, rows);
  if (!dtable.wanted() && !dropout.active()) return;
  const double scattered = dtable.wanted() ? scatter_bytes(dx, dtable) : static_cast<double>(dx.bytes());
  stream.count(0, scattered + static_cast<double>(dx.bytes()) + read);
  run<cpu::positions_backward, cuda::positions_backward>(stream, dtable, dx, positions, dropout, rows);
}

}  // namespace mtl
