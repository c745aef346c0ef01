// Runs operators in parallel on the cpu. Work is divided into fixed blocks, so results do not depend on the thread
// count.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mtl {

/// Elements or rows [begin, end).
struct Range {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t size() const { return end - begin; }
};

/// [0, count) in blocks of equal size, except that the last may be shorter.
struct Blocks {
  std::int64_t count;
  std::int64_t block_size;
  std::int64_t number() const { return (count + block_size - 1) / block_size; }
  Range operator[](std::int64_t block) const { return {block * block_size, std::min(count, (block + 1) * block_size)}; }
};

/// Below this many elements, a second thread costs more than it gains. A fork takes about 5 us.
inline constexpr std::int64_t kSerialElements = 16384;

/// Divides rows of `width` columns into at most 512 blocks, aiming at kSerialElements / 4 elements per block.
inline Blocks row_blocks(std::int64_t rows, std::int64_t width) {
  std::int64_t by_work = kSerialElements / 4 / std::max<std::int64_t>(1, width);
  return {rows, std::max({std::int64_t{1}, by_work, (rows + 511) / 512})};
}

/// Calls body(block) for every block in [0, blocks), on up to `threads` threads. Each thread processes a contiguous
/// range of blocks. `work` is the total element count. body() must not throw.
template <class Body>
void parallel_for(int threads, std::int64_t blocks, std::int64_t work, const Body& body) {
  auto useful = static_cast<int>(std::min<std::int64_t>({threads, blocks, work / kSerialElements + 1}));
  if (useful <= 1) {
    for (std::int64_t block = 0; block < blocks; ++block) body(block);
    return;
  }
#pragma omp parallel for num_threads(useful) schedule(static)
  for (std::int64_t block = 0; block < blocks; ++block) body(block);
}

/// Like parallel_for(), but divides a matrix into row blocks and calls body(Range rows).
template <class Body>
void parallel_rows(int threads, std::int64_t rows, std::int64_t width, const Body& body) {
  Blocks blocks = row_blocks(rows, width);
  parallel_for(threads, blocks.number(), rows * width, [&](std::int64_t block) { body(blocks[block]); });
}

}  // namespace mtl
