// The pieces of attention that run on vectors; included once per instruction set (Highway's foreach_target).
//
// Products C (rows, 2 N) += A (rows, k) B (k, 2 N) keep C in registers: N lanes, kRows x 2 accumulators. B comes in
// panels of 2 N columns, so that the inner loop reads it in order.
#if defined(MTL_KERNELS_ATTENTION_CPU_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef MTL_KERNELS_ATTENTION_CPU_INL_H
#undef MTL_KERNELS_ATTENTION_CPU_INL_H
#else
#define MTL_KERNELS_ATTENTION_CPU_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/attention_cpu.h"
#include "kernels/attention_cpu_work.h"

HWY_BEFORE_NAMESPACE();
namespace mtl::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::CappedTag<float, 16>;
using Vec = hn::Vec<F32>;
constexpr F32 kF32{};
constexpr std::int64_t kLanes = hn::MaxLanes(F32());
constexpr std::int64_t kWidth = 2 * kLanes;                    // columns of a panel
constexpr std::int64_t kRows = HWY_TARGET <= HWY_AVX3 ? 12 : 6;  // with 32 vector registers, or with 16
constexpr float kLog2E = 1.44269504088896f, kLn2 = 0.693147180559945f;

HWY_INLINE std::int64_t round_to_panel(std::int64_t n) { return (n + kWidth - 1) / kWidth * kWidth; }

enum class Store { overwrite, add };

/// C (kRows, 2 N) = or += A B. A is (kRows, k) with rows lda apart, or kept transposed as (k, kRows).
template <bool kTransposed, Store kStore>
HWY_INLINE void multiply_tile(const float* HWY_RESTRICT a, std::int64_t lda, const float* HWY_RESTRICT b,
                              std::int64_t ldb, std::int64_t k, float* HWY_RESTRICT c, std::int64_t ldc) {
  Vec left[kRows], right[kRows];
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) left[i] = right[i] = hn::Zero(kF32);
  for (std::int64_t p = 0; p < k; ++p) {
    Vec b0 = hn::LoadU(kF32, b + p * ldb), b1 = hn::LoadU(kF32, b + p * ldb + kLanes);
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
      Vec scalar = hn::Set(kF32, kTransposed ? a[p * lda + i] : a[i * lda + p]);
      left[i] = hn::MulAdd(scalar, b0, left[i]);
      right[i] = hn::MulAdd(scalar, b1, right[i]);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    float* row = c + i * ldc;
    if (kStore == Store::add) {
      left[i] = hn::Add(left[i], hn::LoadU(kF32, row));
      right[i] = hn::Add(right[i], hn::LoadU(kF32, row + kLanes));
    }
    hn::StoreU(left[i], kF32, row);
    hn::StoreU(right[i], kF32, row + kLanes);
  }
}

HWY_INLINE float dot(const float* a, const float* b, std::int64_t n) {
  Vec sum = hn::Zero(kF32);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sum = hn::MulAdd(hn::LoadU(kF32, a + i), hn::LoadU(kF32, b + i), sum);
  float total = hn::GetLane(hn::SumOfLanes(kF32, sum));
  for (; i < n; ++i) total += a[i] * b[i];
  return total;
}

/// 2^x for x <= 128; 0 below -126.5. Relative error 2e-7 (the polynomial of Cephes' exp2f).
HWY_INLINE Vec exp2_of(Vec x) {
  const hn::RebindToSigned<F32> di;
  x = hn::Max(x, hn::Set(kF32, -127.0f));
  auto n = hn::NearestInt(x);
  Vec f = hn::Sub(x, hn::ConvertTo(kF32, n));
  Vec p = hn::Set(kF32, 1.535336188319500e-4f);
  for (float c : {1.339887440266574e-3f, 9.618437357674640e-3f, 5.550332471162809e-2f, 2.402264791363012e-1f,
                  6.931472028550421e-1f, 1.0f}) {
    p = hn::MulAdd(p, f, hn::Set(kF32, c));
  }
  return hn::Mul(p, hn::BitCast(kF32, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127)))));
}

/// Panels [column / 2N][row][2N] of src (rows, columns); columns are padded with zeros.
HWY_INLINE void pack_rows(const float* src, std::int64_t stride, std::int64_t rows, std::int64_t columns, float* panels) {
  for (std::int64_t c = 0; c < columns; c += kWidth) {
    std::int64_t width = std::min(kWidth, columns - c);
    for (std::int64_t r = 0; r < rows; ++r, panels += kWidth) {
      std::copy_n(src + r * stride + c, width, panels);
      std::fill(panels + width, panels + kWidth, 0.0f);
    }
  }
}

/// Panels [row / 2N][column][2N] of src transposed; rows are padded with zeros up to padded_rows, a multiple of 2N.
HWY_INLINE void pack_transposed(const float* src, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                                std::int64_t padded_rows, float* panels) {
  for (std::int64_t r = 0; r < padded_rows; r += kWidth, panels += columns * kWidth) {
    std::int64_t width = std::clamp<std::int64_t>(rows - r, 0, kWidth);
    if (width < kWidth) std::fill_n(panels, columns * kWidth, 0.0f);
    for (std::int64_t i = 0; i < width; ++i) {
      for (std::int64_t c = 0; c < columns; ++c) panels[c * kWidth + i] = src[(r + i) * stride + c];
    }
  }
}

/// A block of rows times a factor, rows padded to `padded` columns and to kQueryBlock rows with zeros.
HWY_INLINE void copy_block(const float* src, std::int64_t stride, std::int64_t rows, std::int64_t columns, float factor,
                           std::int64_t padded, float* out) {
  for (std::int64_t r = 0; r < kQueryBlock; ++r, out += padded) {
    std::int64_t width = r < rows ? columns : 0;
    for (std::int64_t c = 0; c < width; ++c) out[c] = src[r * stride + c] * factor;
    std::fill(out + width, out + padded, 0.0f);
  }
}

/// The random bytes of one tile of 16 rows by 32 columns: eight or more Philox calls at a time.
HWY_INLINE void draw_tile(PhiloxKey key, std::uint64_t sample, std::uint64_t block, std::uint8_t* out, std::int64_t stride) {
  const hn::CappedTag<std::uint64_t, 8> d64;
  const hn::Repartition<std::uint32_t, decltype(d64)> d32;
  alignas(64) std::uint32_t words[4][32];
  constexpr int kCalls = 2 * hn::MaxLanes(d64);
  // A 64-bit lane carries one call; only its low half counts, so that products need not be split.
  auto draw = [&](std::uint64_t first, auto (&c)[4]) HWY_ATTR {
    c[0] = hn::Add(hn::Set(d64, first & 0xffffffffu), hn::Add(hn::Iota(d64, 0), hn::Iota(d64, 0)));
    c[1] = hn::Set(d64, first >> 32);
    c[2] = hn::Set(d64, sample & 0xffffffffu);
    c[3] = hn::Set(d64, sample >> 32);
    std::uint32_t k0 = key.seed, k1 = key.site;
    for (int round = 0; round < 10; ++round) {
      auto low = hn::MulEven(hn::BitCast(d32, c[0]), hn::Set(d32, 0xD2511F53u));
      auto high = hn::MulEven(hn::BitCast(d32, c[2]), hn::Set(d32, 0xCD9E8D57u));
      c[0] = hn::Xor(hn::Xor(hn::ShiftRight<32>(high), c[1]), hn::Set(d64, k0));
      c[2] = hn::Xor(hn::Xor(hn::ShiftRight<32>(low), c[3]), hn::Set(d64, k1));
      c[1] = high;
      c[3] = low;
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
  };
  for (int call = 0; call < 32; call += kCalls) {
    hn::Vec<decltype(d64)> even[4], odd[4];
    draw(block + call, even);
    draw(block + call + 1, odd);
    for (int j = 0; j < 4; ++j) {
      auto word = hn::OddEven(hn::BitCast(d32, hn::ShiftLeft<32>(odd[j])), hn::BitCast(d32, even[j]));
      hn::StoreU(word, d32, words[j] + call);
    }
  }
  // Words of lanes 4 g .. 4 g + 3: low halves are row g, high halves row g + 8; word j holds columns 8 j .. 8 j + 7.
  const hn::FixedTag<std::uint16_t, 8> d16;
  for (int g = 0; g < 8; ++g) {
    for (int j = 0; j < 4; j += 2) {
      auto w0 = hn::Load(d16, reinterpret_cast<const std::uint16_t*>(words[j] + 4 * g));
      auto w1 = hn::Load(d16, reinterpret_cast<const std::uint16_t*>(words[j + 1] + 4 * g));
      hn::StoreU(hn::ConcatEven(d16, w1, w0), d16, reinterpret_cast<std::uint16_t*>(out + g * stride + 8 * j));
      hn::StoreU(hn::ConcatOdd(d16, w1, w0), d16, reinterpret_cast<std::uint16_t*>(out + (g + 8) * stride + 8 * j));
    }
  }
}

/// The factor (0 or 1 / keep probability) of N elements.
HWY_INLINE Vec dropout_factor(const std::uint8_t* bytes, const AttentionDropout& dropout) {
  const hn::RebindToSigned<F32> di;
  auto drawn = hn::PromoteTo(di, hn::LoadU(hn::Rebind<std::uint8_t, F32>(), bytes));
  auto dropped = hn::RebindMask(kF32, hn::Lt(drawn, hn::Set(di, dropout.threshold)));
  return hn::IfThenZeroElse(dropped, hn::Set(kF32, dropout.scale));
}

/// A block of scores: query rows [row, row + rows) against keys [key, key_end).
struct Block {
  std::int64_t row, rows, key, key_end;
};

/// Random bytes (kQueryBlock, kKeyBlock) of a block of one head, where its rows can see.
HWY_INLINE void draw_block(const AttentionDropout& dropout, std::int64_t head, const Block& block, std::uint8_t* out) {
  for (std::int64_t row = 0; row < block.rows; row += 16) {
    std::int64_t end = std::min(block.key_end, block.row + row + 16);
    for (std::int64_t key = block.key; key < end; key += 32) {
      std::uint64_t tile = ((dropout.head + head) * dropout.row_tiles + (block.row + row) / 16) * dropout.column_tiles + key / 32;
      draw_tile(dropout.key, dropout.sample, tile * 32, out + row * kKeyBlock + (key - block.key), kKeyBlock);
    }
  }
}

/// The first key that some row of a block may see, rounded down to where a block of keys may begin.
HWY_INLINE std::int64_t first_key(const AttentionGroup& group, std::int64_t row, std::int64_t rows) {
  if (group.document_start == nullptr) return 0;
  return *std::min_element(group.document_start + row, group.document_start + row + rows) / kKeyAlign * kKeyAlign;
}

/// How many columns of a block the kRows rows from `row` on need, in whole panels.
HWY_INLINE std::int64_t visible_columns(const Block& block, std::int64_t row, std::int64_t offset) {
  return round_to_panel(std::clamp<std::int64_t>(offset + row + kRows - block.key, 0, block.key_end - block.key));
}

/// Sets to -inf what row `position` must not see among `columns` scores that begin at key `key`.
HWY_INLINE void mask_row(float* scores, std::int64_t columns, std::int64_t key, std::int64_t start, std::int64_t position) {
  constexpr float kMasked = -std::numeric_limits<float>::infinity();
  std::int64_t begin = std::clamp<std::int64_t>(start - key, 0, columns);
  std::int64_t end = std::clamp<std::int64_t>(position + 1 - key, begin, columns);
  std::fill(scores, scores + begin, kMasked);
  std::fill(scores + end, scores + columns, kMasked);
}

/// scores (kQueryBlock, kScoreStride) = a (kQueryBlock, dim) times packed keys or values, up to the diagonal.
HWY_INLINE void multiply_scores(const float* a, std::int64_t lda, const float* panels, std::int64_t dim,
                                const Block& block, std::int64_t offset, float* scores) {
  for (std::int64_t column = 0; column < block.key_end - block.key; column += kWidth) {
    const float* panel = panels + (block.key + column) * dim;
    for (std::int64_t row = 0; row < block.rows; row += kRows) {
      if (column >= visible_columns(block, block.row + row, offset)) continue;
      multiply_tile<false, Store::overwrite>(a + row * lda, lda, panel, kWidth, dim, scores + row * kScoreStride + column,
                                             kScoreStride);
    }
  }
}

/// out (kQueryBlock, padded) += scores times packed rows (keys, dim), up to the diagonal.
HWY_INLINE void multiply_rows(const float* scores, const float* panels, std::int64_t keys, std::int64_t padded,
                              const Block& block, std::int64_t offset, float* out) {
  for (std::int64_t column = 0; column < padded; column += kWidth) {
    const float* panel = panels + column * keys + block.key * kWidth;
    for (std::int64_t row = 0; row < block.rows; row += kRows) {
      std::int64_t k = std::min({offset + block.row + row + kRows, block.key_end, keys}) - block.key;
      if (k <= 0) continue;
      multiply_tile<false, Store::add>(scores + row * kScoreStride, kScoreStride, panel, kWidth, k,
                                       out + row * padded + column, padded);
    }
  }
}

}  // namespace mtl::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
