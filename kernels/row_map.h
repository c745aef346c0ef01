// Maps the rows of a tensor to the samples and positions of a run. A micro-batch has B sequences of T positions, and
// its (B T) rows are numbered sequence by sequence. Row i of a tensor is row first_row + i of the micro-batch: position
// (first_row + i) % T of the sequence (first_row + i) / T, which is sample samples[(first_row + i) / T] of the run.
#pragma once

#include <cstdint>

#include "device/tensor.h"

namespace mtl {

struct RowMap {
  Tensor samples{};             // (B) i64; may be absent if no random numbers are drawn
  std::int64_t first_row = 0;   // the micro-batch's row that is the tensor's first
  std::int64_t seq_length = 1;  // T

  std::int64_t sequence(std::int64_t row) const { return (first_row + row) / seq_length; }
  std::int64_t position(std::int64_t row) const { return (first_row + row) % seq_length; }
};

/// Throws unless the map gives each of `count` rows a sample.
void check_samples(const char* what, const RowMap& rows, std::int64_t count);

}  // namespace mtl
