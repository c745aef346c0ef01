// Scatter-adds into the rows of a table on the cpu (kernels/embedding_cpu.cpp).
#pragma once

#include <cstdint>

namespace mtl {

/// A scatter-add. Place n adds to row rows[n] - begin of a table if the table holds that row.
struct Places {
  const std::int32_t* rows;
  std::int64_t begin, number;
  const std::uint64_t* sorted = nullptr;  // row << 32 | place for the rows in the table, ascending; null if fp32
  std::int64_t held = 0;                  // length of `sorted`

  std::int64_t row(std::int64_t place) const { return rows[place] - begin; }
};

/// Columns that a thread processes at a time.
inline constexpr std::int64_t kScatterColumns = 64;

}  // namespace mtl
