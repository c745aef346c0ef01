// Maps a tensor's rows to the run's samples and positions. A micro-batch has B sequences with T positions each, and its
// (B T) rows are numbered sequence by sequence. For row i of a tensor:
//   micro-batch row  r = first_row + i
//   position         r % T
//   sequence         r / T, which is the run's sample samples[r / T]
#pragma once

#include <cstdint>

#include "device/tensor.h"

namespace mtl {

struct RowMap {
  Tensor samples{};             // (B) i64; may be absent if no random numbers are drawn
  std::int64_t first_row = 0;   // the micro-batch row that is the tensor's row 0
  std::int64_t seq_length = 1;  // T

  std::int64_t sequence(std::int64_t row) const { return (first_row + row) / seq_length; }
  std::int64_t position(std::int64_t row) const { return (first_row + row) % seq_length; }
};

/// Throws unless all `count` rows can be mapped to samples.
void check_samples(const char* what, const RowMap& rows, std::int64_t count);

}  // namespace mtl
