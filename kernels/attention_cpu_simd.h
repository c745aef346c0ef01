// Vector code shared by the attention_cpu_*.cpp files. Include after simd.h.
//
// Products C (rows, 2 N) += A (rows, k) B (k, 2 N) keep C in registers: kRows x 2 accumulators with N lanes each. B is
// stored in panels of 2 N columns, so that the inner loop reads it in order. pack_rows(), pack_transposed() and
// copy_block() copy the operands to the work area and widen them to fp32. T is the element type outside the work area.

#if defined(MTL_ATTENTION_SIMD_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef MTL_ATTENTION_SIMD_TOGGLE
#undef MTL_ATTENTION_SIMD_TOGGLE
#else
#define MTL_ATTENTION_SIMD_TOGGLE
#endif

HWY_BEFORE_NAMESPACE();
namespace mtl::HWY_NAMESPACE {
using namespace cpu;

constexpr std::int64_t kLanes = hn::MaxLanes(F32());
constexpr std::int64_t kWidth = 2 * kLanes;                      // columns of a panel
constexpr std::int64_t kRows = HWY_TARGET <= HWY_AVX3 ? 12 : 6;  // with 32 vector registers, or with 16

HWY_INLINE std::int64_t round_to_panel(std::int64_t n) { return (n + kWidth - 1) / kWidth * kWidth; }

enum class Store { overwrite, add };

/// C (kRows, 2 N) = or += A B. A is (kRows, k) with rows lda apart, or stored transposed as (k, kRows).
template <bool kTransposed, Store kStore>
HWY_INLINE void multiply_tile(const float* HWY_RESTRICT a, std::int64_t lda, const float* HWY_RESTRICT b,
                              std::int64_t ldb, std::int64_t k, float* HWY_RESTRICT c, std::int64_t ldc) {
  VecF32 left[kRows], right[kRows];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) left[i] = right[i] = set(0);
  for (std::int64_t p = 0; p < k; ++p) {
    VecF32 b0 = hn::LoadU(F32(), b + p * ldb), b1 = hn::LoadU(F32(), b + p * ldb + kLanes);
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      VecF32 scalar = set(kTransposed ? a[p * lda + i] : a[i * lda + p]);
      left[i] = hn::MulAdd(scalar, b0, left[i]);
      right[i] = hn::MulAdd(scalar, b1, right[i]);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    float* row = c + i * ldc;
    if (kStore == Store::add) {
      left[i] = hn::Add(left[i], hn::LoadU(F32(), row));
      right[i] = hn::Add(right[i], hn::LoadU(F32(), row + kLanes));
    }
    hn::StoreU(left[i], F32(), row);
    hn::StoreU(right[i], F32(), row + kLanes);
  }
}

template <class T>
HWY_INLINE float dot(const float* a, const T* b, std::int64_t n) {
  return sum_of(n, [&](std::size_t i, auto lanes) HWY_ATTR { return hn::Mul(lanes.load(a + i), lanes.load(b + i)); });
}

/// out (n) = in * factor, rounded to out's type.
template <class From, class To>
HWY_INLINE void copy_scaled(const From* in, std::int64_t n, float factor, To* out) {
  sweep(n, [&](std::size_t i, auto lanes) HWY_ATTR { lanes.store(hn::Mul(lanes.load(in + i), set(factor)), out + i); });
}

using F32x4 = hn::FixedTag<float, 4>;

/// Transposes a 4 x 4 matrix.
HWY_INLINE void transpose_4x4(hn::Vec<F32x4> (&rows)[4]) {
  const F32x4 d;
  auto low01 = hn::InterleaveLower(d, rows[0], rows[1]), high01 = hn::InterleaveUpper(d, rows[0], rows[1]);
  auto low23 = hn::InterleaveLower(d, rows[2], rows[3]), high23 = hn::InterleaveUpper(d, rows[2], rows[3]);
  rows[0] = hn::ConcatLowerLower(d, low23, low01);
  rows[1] = hn::ConcatUpperUpper(d, low23, low01);
  rows[2] = hn::ConcatLowerLower(d, high23, high01);
  rows[3] = hn::ConcatUpperUpper(d, high23, high01);
}

/// Packs src (rows, columns) into panels [column / 2N][row][2N], padding columns with zeros.
template <class T>
HWY_INLINE void pack_rows(const HeadRows& src, std::int64_t rows, std::int64_t columns, float* panels) {
  for (std::int64_t c = 0; c < columns; c += kWidth) {
    std::int64_t width = std::min(kWidth, columns - c);
    for (std::int64_t r = 0; r < rows; ++r, panels += kWidth) {
      copy_scaled(src.row<T>(r) + c, width, 1.0f, panels);
      std::fill(panels + width, panels + kWidth, 0.0f);
    }
  }
}

/// Rows of up to kWidth columns as fp32.
struct WideRows {
  const float* first;
  std::int64_t stride;
};

/// Returns four rows as fp32: in place if they are fp32, otherwise widened into `area` (4, kWidth).
template <class T>
HWY_INLINE WideRows four_rows(const T* src, std::int64_t stride, std::int64_t columns, float* area) {
  if constexpr (dtype_of<T>() == DType::f32) return {src, stride};
  for (std::int64_t i = 0; i < 4; ++i) copy_scaled(src + i * stride, columns, 1.0f, area + i * kWidth);
  return {area, kWidth};
}

/// Packs src transposed into panels [row / 2N][column][2N], padding rows with zeros up to padded_rows, a multiple of
/// 2N.
template <class T>
HWY_INLINE void pack_transposed(const HeadRows& src, std::int64_t rows, std::int64_t columns, std::int64_t padded_rows,
                                float* panels) {
  const F32x4 d;
  std::int64_t full_rows = rows / 4 * 4, full_columns = columns / 4 * 4;
  auto place = [&](std::int64_t row, std::int64_t column) {
    return panels + (row / kWidth * columns + column) * kWidth + row % kWidth;
  };
  HWY_ALIGN float area[4 * kWidth];
  for (std::int64_t row = 0; row < full_rows; row += 4) {
    for (std::int64_t begin = 0; begin < full_columns; begin += kWidth) {
      const std::int64_t end = std::min(begin + kWidth, full_columns);
      const WideRows wide = four_rows(src.row<T>(row) + begin, src.stride, end - begin, area);
      for (std::int64_t column = begin; column < end; column += 4) {
        hn::Vec<F32x4> block[4];
        for (int i = 0; i < 4; ++i) block[i] = hn::LoadU(d, wide.first + i * wide.stride + (column - begin));
        transpose_4x4(block);
        for (int i = 0; i < 4; ++i) hn::StoreU(block[i], d, place(row, column + i));
      }
    }
  }
  for (std::int64_t row = 0; row < padded_rows; ++row) {
    for (std::int64_t column = row < full_rows ? full_columns : 0; column < columns; ++column) {
      *place(row, column) = row < rows ? widen(src.row<T>(row)[column]) : 0.0f;
    }
  }
}

/// Copies a block of rows, multiplied by `factor` and padded with zeros to `padded` columns and kQueryBlock rows.
template <class T>
HWY_INLINE void copy_block(const T* src, std::int64_t stride, std::int64_t rows, std::int64_t columns, float factor,
                           std::int64_t padded, float* out) {
  for (std::int64_t r = 0; r < kQueryBlock; ++r, out += padded) {
    std::int64_t width = r < rows ? columns : 0;
    copy_scaled(src + r * stride, width, factor, out);
    std::fill(out + width, out + padded, 0.0f);
  }
}

/// Draws random bytes for one tile of 16 rows by 32 columns (kernels/dropout.h).
HWY_INLINE void draw_tile(PhiloxKey key, std::uint64_t sample, std::uint64_t block, std::uint8_t* out,
                          std::int64_t stride) {
  HWY_ALIGN std::uint32_t words[32 * 4];
  philox_blocks(key, sample, block, 32, words);
  const F32x4 d;
  const hn::Repartition<std::uint16_t, F32x4> d16;
  for (int g = 0; g < 8; ++g) {  // calls 4 g .. 4 g + 3: low halves are row g, high halves row g + 8
    hn::Vec<F32x4> call[4];
    for (int q = 0; q < 4; ++q)
      call[q] = hn::BitCast(d, hn::Load(hn::RebindToUnsigned<F32x4>(), words + 16 * g + 4 * q));
    transpose_4x4(call);  // now word j of the four calls, columns 8 j .. 8 j + 7
    for (int j = 0; j < 4; j += 2) {
      auto left = hn::BitCast(d16, call[j]), right = hn::BitCast(d16, call[j + 1]);
      hn::StoreU(hn::ConcatEven(d16, right, left), d16, reinterpret_cast<std::uint16_t*>(out + g * stride + 8 * j));
      hn::StoreU(hn::ConcatOdd(d16, right, left), d16,
                 reinterpret_cast<std::uint16_t*>(out + (g + 8) * stride + 8 * j));
    }
  }
}

/// Returns the dropout factors (0 or 1 / keep probability) for N elements.
HWY_INLINE VecF32 dropout_factor(const std::uint8_t* bytes, const AttentionDropout& dropout) {
  auto drawn = hn::PromoteTo(I32(), hn::LoadU(hn::Rebind<std::uint8_t, F32>(), bytes));
  auto dropped = hn::RebindMask(F32(), hn::Lt(drawn, hn::Set(I32(), dropout.threshold)));
  return hn::IfThenZeroElse(dropped, set(dropout.scale));
}

/// A block of scores: query rows [row, row + rows) against keys [key, key_end).
struct Block {
  std::int64_t row, rows, key, key_end;
};

/// Columns of a block.
struct Columns {
  std::int64_t begin, end;
};

/// Returns the block's columns that at least one of `count` rows from `row` on may see, extended to multiples of
/// `step`. Ignores document boundaries.
HWY_INLINE Columns visible_columns(const AttentionGroup& group, const Block& block, std::int64_t row,
                                   std::int64_t count, std::int64_t step) {
  const std::int64_t columns = block.key_end - block.key, last = group.last_key(row) - block.key;
  const std::int64_t end = std::clamp<std::int64_t>(last + count, 0, columns);
  const std::int64_t begin = std::clamp<std::int64_t>(group.window_key(row) - block.key, 0, end);
  return {begin / step * step, round_up(end, step)};
}

/// Returns the columns, in full panels, for the register tile of kRows rows that starts at `row`.
HWY_INLINE Columns visible_panels(const AttentionGroup& group, const Block& block, std::int64_t row) {
  return visible_columns(group, block, row, kRows, kWidth);
}

/// Random bytes for one head's block of scores.
struct BlockBytes {
  std::uint8_t* first;  // of row 0 and the block's first key; rows are kByteStride apart
  std::int64_t skipped_rows;

  /// `bytes` has kByteRows rows.
  HWY_INLINE BlockBytes(const AttentionGroup& group, const Block& block, std::uint8_t* bytes)
      : skipped_rows(group.position(block.row) % 16) {
    first = bytes + skipped_rows * kByteStride;
  }
  HWY_INLINE const std::uint8_t* at(std::int64_t row, std::int64_t column) const {
    return first + row * kByteStride + column;
  }
};

/// Draws the bytes for the keys that the rows of a block may see.
inline void draw_block(const AttentionGroup& group, std::int64_t head, const Block& block, const BlockBytes& out) {
  const AttentionDropout& dropout = group.dropout;
  HWY_ALIGN std::uint8_t other[16 * 32];
  for (std::int64_t row = -out.skipped_rows; row < block.rows;
       row += 16) {  // of a row of tiles, above the block or in it
    const std::int64_t own = std::max<std::int64_t>(row, 0);
    const std::uint64_t tiles =
        ((dropout.head + head) * dropout.row_tiles + (group.position(block.row) + row) / 16) * dropout.column_tiles;
    const Columns columns = visible_columns(group, block, block.row + own, 16, 32);
    for (std::int64_t column = columns.begin; column < columns.end && block.key + column < group.keys;) {
      const std::int64_t key = block.key + column, position = group.key_position(key), within = position % 32,
                         most = std::min<std::int64_t>(32, group.keys - key);
      const bool is_entire = within == 0 && group.key_position(key + most - 1) == position + most - 1;
      const std::uint64_t tile = (tiles + position / 32) * 32;
      std::uint8_t* to = out.first + row * kByteStride + column;
      if (is_entire) {  // the tile's keys are next to each other
        draw_tile(dropout.key, dropout.sample, tile, to, kByteStride);
        column += 32;
        continue;
      }
      std::int64_t count = 1;
      while (within + count < 32 && count < most && group.key_position(key + count) == position + count) ++count;
      draw_tile(dropout.key, dropout.sample, tile, other, 32);
      for (std::int64_t i = 0; i < 16; ++i) std::copy_n(other + i * 32 + within, count, to + i * kByteStride);
      column += count;
    }
  }
}

/// Returns how many rows the block of queries has that starts at `row`.
HWY_INLINE std::int64_t block_rows(const AttentionGroup& group, std::int64_t row) {
  const std::int64_t before = group.part.is_whole() ? 0 : group.position(row) % kQueryBlock;
  return std::min(kQueryBlock - before, group.chunk_end(row) - row);
}

/// Returns the first key that at least one of `rows` rows from `row` on may see, rounded down to a multiple of
/// kKeyAlign.
inline std::int64_t first_key_of(const AttentionGroup& group, std::int64_t row, std::int64_t rows) {
  std::int64_t first = group.first_key(row);
  for (std::int64_t i = row + 1; i < row + rows && group.document_start != nullptr; ++i)
    first = std::min(first, group.first_key(i));
  return first / kKeyAlign * kKeyAlign;
}

/// Applies the causal, window and document masks: sets masked scores in row `row`.
HWY_INLINE void mask_row(const AttentionGroup& group, const Block& block, std::int64_t row, Columns columns,
                         float* scores, float masked = -std::numeric_limits<float>::infinity()) {
  std::int64_t begin = std::clamp(group.first_key(row) - block.key, columns.begin, columns.end);
  std::int64_t end = std::clamp(group.last_key(row) + 1 - block.key, begin, columns.end);
  std::fill(scores + columns.begin, scores + begin, masked);
  std::fill(scores + end, scores + columns.end, masked);
}

/// scores (kQueryBlock, kScoreStride) = a (kQueryBlock, dim) times packed keys or values. Computes only columns from
/// the window's start up to the diagonal.
inline void multiply_scores(const float* a, std::int64_t lda, const float* panels, const AttentionGroup& group,
                            const Block& block, float* scores) {
  for (std::int64_t column = 0; column < block.key_end - block.key; column += kWidth) {
    const float* panel = panels + (block.key + column) * group.dim;
    for (std::int64_t row = 0; row < block.rows; row += kRows) {
      const Columns columns = visible_panels(group, block, block.row + row);
      if (column < columns.begin || column >= columns.end) continue;
      multiply_tile<false, Store::overwrite>(a + row * lda, lda, panel, kWidth, group.dim,
                                             scores + row * kScoreStride + column, kScoreStride);
    }
  }
}

/// out (kQueryBlock, padded) += scores times packed rows (keys, dim). Only keys from the window's start up to the
/// diagonal contribute.
inline void multiply_rows(const float* scores, const float* panels, std::int64_t padded, const AttentionGroup& group,
                          const Block& block, float* out) {
  for (std::int64_t column = 0; column < padded; column += kWidth) {
    const float* panel = panels + column * group.keys + block.key * kWidth;
    for (std::int64_t row = 0; row < block.rows; row += kRows) {
      const std::int64_t begin = visible_panels(group, block, block.row + row).begin;
      const std::int64_t last_row = block.row + std::min(row + kRows, block.rows) - 1;
      const std::int64_t k = std::min(group.last_key(last_row) + 1, block.key_end) - block.key - begin;
      if (k <= 0) continue;
      multiply_tile<false, Store::add>(scores + row * kScoreStride + begin, kScoreStride, panel + begin * kWidth,
                                       kWidth, k, out + row * padded + column, padded);
    }
  }
}

}  // namespace mtl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
