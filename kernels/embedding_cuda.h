// Sorts a scatter-add's places by the table row they add to, on the device cuda.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/stream.h"
#include "kernels/cuda/platform.h"

namespace mtl::cuda {

/// A key is row << 32 | place.
__device__ inline std::int64_t row_of(std::uint64_t key) { return static_cast<std::int64_t>(key >> 32); }
__device__ inline std::uint32_t place_of(std::uint64_t key) { return static_cast<std::uint32_t>(key); }

/// Stably sorts the keys for places 0 .. count - 1 by row. Place n has row rows[n] - first, or row `table_rows` if that
/// number is not in [0, table_rows). Returns the keys, which are stored in `work`. `work` must have sort_work() bytes
/// and be 16-byte aligned.
const std::uint64_t* sort_places(Stream& stream, void* work, const std::int32_t* rows, std::int64_t first,
                                 std::int64_t table_rows, std::int64_t count);
/// Returns the scratch memory that sort_places() needs, in bytes. The result is a multiple of 16.
std::size_t sort_work(std::int64_t count);

}  // namespace mtl::cuda
