// The dropout masks: which elements are kept depends only on seed, place in the model, global sample number and
// position in the global tensor, never on micro-batch size, layout or threads. A RowMap maps a row to
// its sample and position.
//
// Hidden state: a sample's tensor (T, C) is numbered row by row, wherever its rows are held; one Philox call, counter
// (sample, element / 8), serves 8 consecutive elements with 16 bits each: word i / 2, low half for even i. Kept iff
// bits >= round(p * 65536), scaled by 65536 / (65536 - round(p * 65536)).
//
// Attention: a head's scores (T, T) are cut into tiles of 16 rows by 32 columns. One call, counter (sample,
// ((head * row_tiles + row_tile) * column_tiles + column_tile) * 32 + lane) with lane = 4 g + q, g in 0..7, q in 0..3,
// serves the 16 elements of rows {g, g+8} and columns {2q, 2q+1} + 8j, j in 0..3, with 8 bits each: word j, bytes from
// the low end (g, 2q), (g, 2q+1), (g+8, 2q), (g+8, 2q+1): the elements that one thread holds of an mma fragment. Kept
// iff byte >= round(p * 256), scaled by 256 / (256 - round(p * 256)). Head numbers are global; tiles cover the global
// T.
#pragma once

#include <cmath>
#include <cstdint>

#include "device/philox.h"

namespace mtl {

struct Dropout {
  float probability = 0;  // 0: off
  PhiloxKey key{};
  bool active() const { return probability > 0; }
};

inline std::uint32_t hidden_dropout_threshold(float p) {
  return static_cast<std::uint32_t>(std::lround(double{p} * 65536));
}
inline std::uint32_t attention_dropout_threshold(float p) {
  return static_cast<std::uint32_t>(std::lround(double{p} * 256));
}

}  // namespace mtl
