// Block sizes for attention on the CPU, and the workspace layout for one call. Both are the same on all instruction
// sets, so that a memory plan made on one machine is valid on another.
#pragma once

#include <cstdint>

namespace mtl::cpu {

inline constexpr std::int64_t kQueryBlock = 48;  // a multiple of 16 (dropout tiles) and of 6 and 12 (register tiles)
inline constexpr std::int64_t kKeyBlock = 192;   // a multiple of these, and of 32 (dropout tiles, widest panel)
inline constexpr std::int64_t kKeyAlign = 96;    // key blocks start at multiples of this
inline constexpr std::int64_t kPanelAlign = 32;  // the widest panel
inline constexpr std::int64_t kScoreStride = kKeyBlock + 16;  // not a multiple of 1 KB, which would crowd cache sets

// A block's dropout bytes: its tiles may begin before the block, by up to 15 rows and 31 columns.
inline constexpr std::int64_t kByteRows = kQueryBlock + 16, kByteStride = kKeyBlock + 32;

constexpr std::int64_t round_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

/// Allocates pieces of a work area. If the base is null, just adds up their sizes.
class WorkArea {
 public:
  explicit WorkArea(float* base) : base_(base) {}
  float* take(std::int64_t floats) {
    float* piece = base_ == nullptr ? nullptr : base_ + used_;
    used_ += round_up(floats, 16);
    return piece;
  }
  std::int64_t used() const { return used_; }

 private:
  float* base_;
  std::int64_t used_ = 0;
};

struct ForwardWork {
  ForwardWork(float* base, std::int64_t keys, std::int64_t dim) : area(base) {
    std::int64_t padded = round_up(dim, kPanelAlign);
    k_columns = area.take(round_up(keys, kKeyAlign) * dim);
    v_rows = area.take(keys * padded);
    q = area.take(kQueryBlock * padded);
    out = area.take(kQueryBlock * padded);
    scores = area.take(kQueryBlock * kScoreStride);
    row_max = area.take(kQueryBlock);
    row_sum = area.take(kQueryBlock);
    bytes = reinterpret_cast<std::uint8_t*>(area.take(kByteRows * kByteStride / 4));
  }
  WorkArea area;
  float* k_columns;  // keys transposed, in panels
  float* v_rows;     // values, in panels
  float* q;          // a block of queries, times scale
  float* out;        // a block of outputs before division by the row sums
  float* scores;
  float* row_max;
  float* row_sum;
  std::uint8_t* bytes;  // of dropout: BlockBytes
};

struct DecodeWork {
  DecodeWork(float* base, std::int64_t keys, std::int64_t heads, std::int64_t dim) : area(base) {
    scores = area.take(heads * keys);
    q = area.take(heads * dim);
    out = area.take(heads * dim);
  }
  WorkArea area;
  float* scores;  // (R, keys)
  float* q;       // (R, D)
  float* out;     // (R, D) sums
};

struct BackwardWork {
  BackwardWork(float* base, std::int64_t keys, std::int64_t dim) : area(base) {
    std::int64_t padded = round_up(dim, kPanelAlign), all = round_up(keys, kKeyAlign);
    k_columns = area.take(all * dim);
    v_columns = area.take(all * dim);
    k_rows = area.take(keys * padded);
    dk = area.take(all * padded);
    dv = area.take(all * padded);
    q = area.take(kQueryBlock * padded);
    dout = area.take(kQueryBlock * padded);
    dq = area.take(kQueryBlock * padded);
    probabilities = area.take(kQueryBlock * kScoreStride);
    dscores = area.take(kQueryBlock * kScoreStride);
    delta = area.take(kQueryBlock);
    bytes = reinterpret_cast<std::uint8_t*>(area.take(kByteRows * kByteStride / 4));
  }
  WorkArea area;
  float* k_columns;  // keys and values transposed, in panels
  float* v_columns;
  float* k_rows;  // keys, in panels
  float* dk;      // (keys, padded) sums
  float* dv;
  float* q;  // a block of queries, times scale
  float* dout;
  float* dq;  // lacks the factor scale
  float* probabilities;
  float* dscores;
  float* delta;         // rowsum(dout * out)
  std::uint8_t* bytes;  // of dropout: BlockBytes
};

}  // namespace mtl::cpu
