#include "kernels/row_map.h"

namespace mtl {

void check_samples(const char* what, const RowMap& rows, std::int64_t count) {
  require(rows.samples.shape().rank() == 1, what, ": dropout needs samples (B), got ", rows.samples.shape());
  expect_tensor(what, rows.samples, DType::i64, rows.samples.shape());
  const std::int64_t all = rows.samples.numel() * rows.rows_per_sequence;
  require(rows.first_row >= 0 && rows.first_row + count <= all, what, ": rows ", rows.first_row, " to ",
          rows.first_row + count, " are outside the ", all, " rows of ", rows.samples.numel(), " samples");
}

}  // namespace mtl
