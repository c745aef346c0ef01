// Maps the rows of a tensor to the samples and positions of a run. A micro-batch has B sequences of T positions, and
// its (B T) rows are numbered sequence by sequence. Row i of a tensor is row first_row + i of the micro-batch. This row
// is position (first_row + i) % T of sequence (first_row + i) / T, and that sequence is sample samples[(first_row + i)
// / T] of the run.
#pragma once

#include <cstdint>

#include "device/tensor.h"

namespace mtl {

struct RowMap {
  Tensor samples{};             // (B) i64; may be absent if no random numbers are drawn
  std::int64_t first_row = 0;   // row of the micro-batch that is row 0 of the tensor
  std::int64_t seq_length = 1;  // T

  std::int64_t sequence(std::int64_t row) const { return (first_row + row) / seq_length; }
  std::int64_t position(std::int64_t row) const { return (first_row + row) % seq_length; }
};

/// Throws unless each of `count` rows is mapped to a sample.
void check_samples(const char* what, const RowMap& rows, std::int64_t count);

}  // namespace mtl
