// The order in which attention's blocks compute tiles.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention.h"

namespace mtl::cuda {

/// The order in which blocks compute the tiles of all sequences' heads (or groups). Blocks start in order of their
/// number, and causality makes tile 0 the longest, so it comes first for several heads: the last blocks are then short,
/// and no processor waits long for the others. The heads of a section are those whose other operands, which their
/// blocks all read, fit in L2 together.
struct TileOrder {
  int tiles;    // per head
  int heads;    // of all sequences
  int section;  // heads per section; the last section may have fewer

  /// `bytes`: of the operands that all tiles of a head read.
  TileOrder(std::int64_t length, int tile, std::int64_t all_heads, std::int64_t bytes)
      : tiles(static_cast<int>((length + tile - 1) / tile)), heads(static_cast<int>(all_heads)) {
    constexpr std::int64_t kCached = 32 << 20;  // A100, H100 and B200 have 40 MB of L2 or more
    section = static_cast<int>(std::clamp<std::int64_t>(kCached / bytes, 1, all_heads));
  }
  unsigned blocks() const { return static_cast<unsigned>(tiles) * static_cast<unsigned>(heads); }

  struct Place {
    int tile, head;
  };
  constexpr Place at(int block) const {
    const int first = block / (tiles * section) * section, inside = block - first * tiles;
    const int size = heads - first < section ? heads - first : section;
    return {inside / size, first + inside % size};
  }
};

/// The order of query tiles, whose blocks read their head's keys and values.
inline TileOrder query_order(const AttentionSizes& s, int size) {
  return {s.queries, size, s.batch * s.groups * s.heads, 2 * s.keys * s.dim * 2};
}

/// Returns into how many parts the heads of a group are divided for dk and dv. With more than one, each part has blocks
/// of its own, which write partial sums. That pays if one block per key tile would use an H100's 132 processors for
/// less than two thirds of the time. All parts together have up to 512 blocks of 128 keys, almost four per processor,
/// so that the partial sums need at most 64 MiB; tiles of 64 keys have twice as many. The number follows from the shape
/// alone, so a plan needs no GPU.
inline int key_parts(const AttentionSizes& s) {
  constexpr std::int64_t kBlocks = 512, kKeys = 128;
  const std::int64_t blocks = s.batch * s.groups * ((s.keys + kKeys - 1) / kKeys);
  const std::int64_t parts = kBlocks / std::max<std::int64_t>(blocks, 1);
  return parts < 3 ? 1 : static_cast<int>(std::min(parts, s.heads));
}
/// The order of key tiles of all parts, whose blocks read the queries of the heads in their part, and their dout.
inline TileOrder key_order(const AttentionSizes& s, int size) {
  const int parts = key_parts(s);
  const std::int64_t heads = (s.heads + parts - 1) / parts;
  return {s.keys, size, s.batch * s.groups * parts, 2 * heads * s.queries * s.dim * 2};
}

}  // namespace mtl::cuda
