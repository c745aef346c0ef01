// Scatter-adds into the rows of a table on the cpu (kernels/embedding_cpu.cpp).
#pragma once

#include <cstdint>

namespace mtl {

/// Place n adds to row rows[n] - begin of a table, unless the table does not hold it.
struct Places {
  const std::int32_t* rows;
  std::int64_t begin, number;
  const std::uint64_t* sorted = nullptr;  // row << 32 | place, ascending, of those that the table holds; or not needed
  std::int64_t held = 0;                  // how many are sorted

  std::int64_t row(std::int64_t place) const { return rows[place] - begin; }
};

/// The columns that a thread takes at a time.
inline constexpr std::int64_t kScatterColumns = 64;

}  // namespace mtl
