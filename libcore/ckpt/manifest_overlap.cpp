// Checks that the pieces of a tensor do not share an element.
#include <algorithm>
#include <span>
#include <vector>

#include "ckpt/manifest.h"

namespace mtl {

namespace {

using Pieces = std::span<const ManifestPiece*>;

[[noreturn]] void refuse_overlap(const ManifestPiece& a, const ManifestPiece& b) {
  fail(Exit::bad_data, "its pieces in ", a.file, " and ", b.file, " overlap");
}

/// Throws if the element ranges of pieces overlap. All pieces must have the same box.
void check_ranges(Pieces pieces) {
  std::ranges::sort(pieces, [](const auto* a, const auto* b) { return a->slice.begin < b->slice.begin; });
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    if (pieces[i]->slice.begin < pieces[i - 1]->slice.end) refuse_overlap(*pieces[i - 1], *pieces[i]);
  }
}

void check_pairs(Pieces pieces) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    for (std::size_t j = i + 1; j < pieces.size(); ++j) {
      for_each_overlap(pieces[i]->slice, pieces[j]->slice,
                       [&](const Overlap&) { refuse_overlap(*pieces[i], *pieces[j]); });
    }
  }
}

/// Sorts pieces along an axis and splits the list where no box crosses. Pieces in different parts do not share any
/// elements.
std::vector<Pieces> parts_along(Pieces pieces, std::size_t axis) {
  auto begin_of = [axis](const ManifestPiece* piece) { return piece->slice.offset[axis]; };
  std::ranges::sort(pieces, [&](const auto* a, const auto* b) { return begin_of(a) < begin_of(b); });
  std::vector<Pieces> parts;
  std::size_t first = 0;
  std::int64_t end = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i > first && begin_of(pieces[i]) >= end) parts.push_back(pieces.subspan(first, i - first)), first = i;
    end = std::max(end, begin_of(pieces[i]) + pieces[i]->slice.size[axis]);
  }
  parts.push_back(pieces.subspan(first));
  return parts;
}

/// Throws if pieces overlap. Parallel layouts produce grids of boxes, with multiple element ranges per box, which we
/// check in O(n log n). We compare all pairs of pieces only if parts_along() cannot separate the boxes.
void check_apart(Pieces pieces) {
  if (pieces.size() < 2) return;
  const Slice& box = pieces[0]->slice;
  if (std::ranges::all_of(pieces, [&](const ManifestPiece* piece) {
        return piece->slice.offset == box.offset && piece->slice.size == box.size;
      }))
    return check_ranges(pieces);
  for (std::size_t axis = 0; axis < box.offset.size(); ++axis) {
    std::vector<Pieces> parts = parts_along(pieces, axis);
    if (parts.size() == 1) continue;
    for (Pieces part : parts) check_apart(part);
    return;
  }
  check_pairs(pieces);
}

}  // namespace

void check_disjoint(const ManifestTensor& entry) {
  std::vector<const ManifestPiece*> pieces;
  for (const ManifestPiece& piece : entry.pieces) {
    if (piece.slice.count() > 0) pieces.push_back(&piece);
  }
  check_apart(pieces);
}

}  // namespace mtl
