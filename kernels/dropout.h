// Dropout masks. Whether an element is kept depends only on the seed, the place in the model, the global sample index,
// and the position in the global tensor, never on micro-batch size, layout or number of threads. A RowMap maps a row to
// its sample and position.
//
// Hidden states: the elements of a sample's tensor (T, C) are numbered row by row, regardless of which ranks have which
// rows. One Philox call with counter (sample, element / 8) serves 8 consecutive elements with 16 bits each: word i / 2,
// low half for even i. An element is kept if bits >= round(p * 65536), then scaled by 65536 / (65536 - round(p *
// 65536)).
//
// Attention: a head's scores (T, T) are divided into tiles of 16 rows by 32 columns. One call with counter (sample,
// ((head * row_tiles + row_tile) * column_tiles + column_tile) * 32 + lane), where lane = 4 g + q, g in 0..7, q in
// 0..3, serves the 16 elements in rows {g, g+8} and columns {2q, 2q+1} + 8j, j in 0..3, with 8 bits each. Word j's
// bytes, from the low end, belong to (g, 2q), (g, 2q+1), (g+8, 2q), (g+8, 2q+1), the elements that one thread has in an
// mma fragment. An element is kept if byte >= round(p * 256), then scaled by 256 / (256 - round(p * 256)). Head indices
// are global, and tiles cover the global T.
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
