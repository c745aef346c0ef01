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
  explicit WorkArea(float* base = nullptr) : base_(base) {}
  float* take(std::int64_t floats) {
    float* piece = base_ == nullptr ? nullptr : base_ + used_;
    used_ += round_up(floats, 16);
    return piece;
  }
  /// Takes the bytes of a block's dropout: BlockBytes.
  std::uint8_t* take_bytes() { return reinterpret_cast<std::uint8_t*>(take(kByteRows * kByteStride / 4)); }
  std::int64_t used() const { return used_; }

 private:
  float* base_;
  std::int64_t used_ = 0;
};

struct ForwardWork {
  WorkArea area;
  std::int64_t keys, dim, padded = round_up(dim, kPanelAlign);
  float* k_columns = area.take(round_up(keys, kKeyAlign) * dim);  // keys transposed, in panels
  float* v_rows = area.take(keys * padded);                       // values, in panels
  float* q = area.take(kQueryBlock * padded);                     // a block of queries, times scale
  float* out = area.take(kQueryBlock * padded);                   // a block of outputs before division by the row sums
  float* scores = area.take(kQueryBlock * kScoreStride);
  float* row_max = area.take(kQueryBlock);
  float* row_sum = area.take(kQueryBlock);
  std::uint8_t* bytes = area.take_bytes();
};

struct DecodeWork {
  WorkArea area;
  std::int64_t keys, heads, dim;
  float* scores = area.take(heads * keys);  // (R, keys)
  float* q = area.take(heads * dim);        // (R, D)
  float* out = area.take(heads * dim);      // (R, D) sums
};

struct BackwardWork {
  WorkArea area;
  std::int64_t keys, dim, padded = round_up(dim, kPanelAlign), all = round_up(keys, kKeyAlign);
  float* k_columns = area.take(all * dim);  // keys and values transposed, in panels
  float* v_columns = area.take(all * dim);
  float* k_rows = area.take(keys * padded);  // keys, in panels
  float* dk = area.take(all * padded);       // (keys, padded) sums
  float* dv = area.take(all * padded);
  float* q = area.take(kQueryBlock * padded);  // a block of queries, times scale
  float* dout = area.take(kQueryBlock * padded);
  float* dq = area.take(kQueryBlock * padded);  // lacks the factor scale
  float* probabilities = area.take(kQueryBlock * kScoreStride);
  float* dscores = area.take(kQueryBlock * kScoreStride);
  float* delta = area.take(kQueryBlock);  // rowsum(dout * out)
  std::uint8_t* bytes = area.take_bytes();
};

}  // namespace mtl::cpu
