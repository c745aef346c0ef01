#include "kernels/embedding.h"

#include "kernels/cpu.h"

namespace mtl {

namespace {

void check_input(const Tensor& hidden, const EmbeddingInput& in, const Tensor& table, const Tensor& positions_table) {
  require(hidden.shape().rank() == 3, "embedding: expected (B, T, C), got ", hidden.shape().text());
  expect_tensor("embedding hidden state", hidden, DType::f32, hidden.shape());
  const Shape places{hidden.size(0), hidden.size(1)};
  expect_tensor("embedding tokens", in.tokens, DType::i32, places);
  if (table.exists()) expect_tensor("embedding table", table, DType::f32, {table.size(0), hidden.size(2)});
  if (!positions_table.exists()) return;
  expect_tensor("embedding position table", positions_table, DType::f32, {positions_table.size(0), hidden.size(2)});
  expect_tensor("embedding positions", in.positions, DType::i32, places);
}

void check_positions(const EmbeddingInput& in, const Tensor& position_table) {
  if (!position_table.exists()) return;
  const std::int32_t* positions = in.positions.data<std::int32_t>();
  for (std::int64_t place = 0; place < in.positions.numel(); ++place) {
    require(positions[place] >= 0 && positions[place] < position_table.size(0), "embedding: position ",
            positions[place], " is not within the ", position_table.size(0), " of the position table");
  }
}

}  // namespace

void embedding_forward(Stream& stream, Tensor out, const EmbeddingInput& in, Tensor table, Tensor position_table,
                       const Dropout& dropout) {
  require(table.exists(), "embedding: no table");
  check_input(out, in, table, position_table);
  const int reads = position_table.exists() ? 2 : 1;
  stream.count(0, (1 + reads) * static_cast<double>(out.bytes()) + static_cast<double>(reads * in.tokens.bytes()));
  if (stream.is_meta()) return;
  check_positions(in, position_table);
  cpu::embedding_forward(stream, out, in, table, position_table, dropout);
}

void embedding_backward(Stream& stream, Grad dtable, Grad dposition_table, Tensor dout, const EmbeddingInput& in,
                        const Dropout& dropout) {
  check_input(dout, in, dtable.tensor, dposition_table.tensor);
  double bytes = static_cast<double>(dout.bytes());
  for (const Grad& grad : {dtable, dposition_table}) {
    if (!grad.wanted()) continue;
    bytes += 2 * static_cast<double>(dout.bytes());
    if (grad.mode == GradMode::overwrite) bytes += static_cast<double>(grad.tensor.bytes());
  }
  stream.count(0, bytes);
  if (stream.is_meta()) return;
  check_positions(in, dposition_table.tensor);
  cpu::embedding_backward(stream, dtable, dposition_table, dout, in, dropout);
}

}  // namespace mtl
