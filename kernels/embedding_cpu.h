// Scatter-adds into table rows on the cpu (kernels/embedding_cpu.cpp).
#pragma once

#include <cstdint>

namespace mtl {

/// Describes a scatter-add. Place n adds to table row rows[n] - begin, if the table has that row.
struct Places {
  const std::int32_t* rows;
  std::int64_t begin, number;
  const std::uint64_t* sorted = nullptr;  // row << 32 | place for rows in the table, ascending; null if fp32
  std::int64_t in_table = 0;              // length of `sorted`

  std::int64_t row(std::int64_t place) const { return rows[place] - begin; }
};

/// Columns that a thread processes at the same time.
inline constexpr std::int64_t kScatterColumns = 64;

}  // namespace mtl
