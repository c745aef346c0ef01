#include "kernels/embedding.h"

#include <algorithm>

#include "kernels/dispatch.h"
#include "kernels/stream_types.h"

namespace mtl {

namespace {

void check_hidden(const char* what, const Tensor& hidden) {
  require(hidden.shape().rank() == 2, what, ": expected (N, C), got ", hidden.shape());
  expect_computed(what, hidden);
}

void check_table(const char* what, const Tensor& hidden, const Tensor& table) {
  expect_stream(what, hidden.dtype(), table.dtype());
  expect_tensor(what, table, table.dtype(), {table.size(0), hidden.size(1)});
}

void check_table_grad(const char* what, const Tensor& hidden, const Grad& dtable) {
  expect_grad(what, dtable, {dtable.tensor.size(0), hidden.size(1)});
}

/// Checks the operands that forward and backward share. Returns the bytes read from `positions`.
double check_positions(const char* what, const Tensor& hidden, const Tensor& positions, bool looks_up,
                       const Dropout& dropout, const RowMap& rows) {
  check_hidden(what, hidden);
  expect_tensor(what, positions, DType::i32, positions.shape());
  const std::int64_t count = hidden.size(0);
  require(rows.first_row >= 0 && rows.first_row + count <= positions.numel(), what, ": rows ", rows.first_row, " to ",
          rows.first_row + count, " are not within ", positions.numel(), " positions");
  if (dropout.active()) check_samples(what, rows, count);
  return looks_up ? double(count) * double(size_of(DType::i32)) : 0;
}

/// Returns the bytes that lookups read from the table: as many elements as `hidden` has, in the table's dtype.
double bytes_in(const Tensor& hidden, const Tensor& table) {
  return double(hidden.numel()) * double(size_of(table.dtype()));
}

/// Returns the bytes that a scatter-add moves at most. Each place reads its row of dout. Each row of the gradient that
/// has places, as many as there can be, is read and written once. A gradient that is overwritten is cleared first.
double scatter_bytes(const Tensor& dout, const Grad& dtable) {
  const Tensor& table = dtable.tensor;
  const std::int64_t rows = std::min(dout.size(0), table.size(0));
  const double cleared = dtable.mode == GradMode::overwrite ? double(table.bytes()) : 0;
  return double(dout.bytes()) + 2 * double(rows * table.size(1)) * double(size_of(table.dtype())) + cleared;
}

}  // namespace

void embedding_forward(Stream& stream, Tensor out, Tensor tokens, std::int64_t vocab_begin, Tensor table) {
  check_hidden("embedding", out);
  check_table("embedding", out, table);
  expect_tensor("embedding", tokens, DType::i32, {out.size(0)});
  stream.count(0, double(out.bytes() + tokens.bytes()) + bytes_in(out, table));
  run<cpu::embedding_forward, cuda::embedding_forward>(stream, out, tokens, vocab_begin, table);
}

void embedding_backward(Stream& stream, Arena& scratch, Grad dtable, Tensor dout, Tensor tokens,
                        std::int64_t vocab_begin) {
  check_hidden("embedding gradient", dout);
  check_table_grad("embedding gradient", dout, dtable);
  expect_tensor("embedding gradient", tokens, DType::i32, {dout.size(0)});
  Arena::Mark mark(scratch);
  const Tensor work = make_work<cpu::scatter_work, cuda::scatter_work>(stream, scratch, dtable.tensor, dout.size(0));
  stream.count(0, scatter_bytes(dout, dtable) + double(tokens.bytes()));
  run<cpu::embedding_backward, cuda::embedding_backward>(stream, work, dtable, dout, tokens, vocab_begin);
}

void positions_forward(Stream& stream, Tensor x, Tensor positions, Tensor table, const Dropout& dropout,
                       const RowMap& rows) {
  const double read = check_positions("positions", x, positions, table.exists(), dropout, rows);
  if (table.exists()) check_table("positions", x, table);
  if (!table.exists() && !dropout.active()) return;
  stream.count(0, 2 * double(x.bytes()) + (table.exists() ? bytes_in(x, table) : 0) + read);
  run<cpu::positions_forward, cuda::positions_forward>(stream, x, positions, table, dropout, rows);
}

void positions_backward(Stream& stream, Arena& scratch, Grad dtable, Tensor dx, Tensor positions,
                        const Dropout& dropout, const RowMap& rows) {
  const double read = check_positions("positions gradient", dx, positions, dtable.wanted(), dropout, rows);
  if (dtable.wanted()) check_table_grad("positions gradient", dx, dtable);
  require(!dtable.wanted() || rows.resets_positions || rows.seq_length() <= dtable.tensor.size(0),
          "positions gradient: sequences have ", rows.seq_length(), " positions, the table ", dtable.tensor.shape());
  if (!dtable.wanted() && !dropout.active()) return;
  Arena::Mark mark(scratch);
  Tensor work;
  if (dtable.wanted())
    work = make_work<cpu::positions_work, cuda::positions_work>(stream, scratch, dtable.tensor, dx.size(0), rows);
  const double scattered = dtable.wanted() ? scatter_bytes(dx, dtable) : double(dx.bytes());
  stream.count(0, scattered + (dropout.active() ? double(dx.bytes()) : 0) + read);
  run<cpu::positions_backward, cuda::positions_backward>(stream, work, dtable, dx, positions, dropout, rows);
}

}  // namespace mtl
