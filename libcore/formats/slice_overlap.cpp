#include "formats/slice_overlap.h"

#include <algorithm>
#include <span>

namespace mtl {

namespace {

using Found = std::optional<std::pair<std::size_t, std::size_t>>;

struct Numbered {
  const Slice* slice;
  std::size_t number;
};

using Numbers = std::span<Numbered>;

/// Compares the element ranges of slices that all have the same box.
Found overlap_of_ranges(Numbers slices) {
  std::ranges::sort(slices, [](const Numbered& a, const Numbered& b) { return a.slice->begin < b.slice->begin; });
  for (std::size_t i = 1; i < slices.size(); ++i) {
    if (slices[i].slice->begin < slices[i - 1].slice->end) return {{slices[i - 1].number, slices[i].number}};
  }
  return std::nullopt;
}

Found overlap_of_pairs(Numbers slices) {
  for (std::size_t i = 0; i < slices.size(); ++i) {
    for (std::size_t j = i + 1; j < slices.size(); ++j) {
      if (share_elements(*slices[i].slice, *slices[j].slice)) return {{slices[i].number, slices[j].number}};
    }
  }
  return std::nullopt;
}

/// Sorts slices along an axis and splits the list where no box crosses. Slices in different parts do not share any
/// elements.
std::vector<Numbers> parts_along(Numbers slices, std::size_t axis) {
  auto begin_of = [axis](const Numbered& one) { return one.slice->offset[axis]; };
  std::ranges::sort(slices, [&](const Numbered& a, const Numbered& b) { return begin_of(a) < begin_of(b); });
  std::vector<Numbers> parts;
  std::size_t first = 0;
  std::int64_t end = 0;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (i > first && begin_of(slices[i]) >= end) parts.push_back(slices.subspan(first, i - first)), first = i;
    end = std::max(end, begin_of(slices[i]) + slices[i].slice->size[axis]);
  }
  parts.push_back(slices.subspan(first));
  return parts;
}

/// Compares all pairs of slices only if parts_along() cannot separate the boxes.
Found overlap_of(Numbers slices) {
  if (slices.size() < 2) return std::nullopt;
  const Slice& box = *slices[0].slice;
  if (std::ranges::all_of(
          slices, [&](const Numbered& one) { return one.slice->offset == box.offset && one.slice->size == box.size; }))
    return overlap_of_ranges(slices);
  for (std::size_t axis = 0; axis < box.offset.size(); ++axis) {
    std::vector<Numbers> parts = parts_along(slices, axis);
    if (parts.size() == 1) continue;
    for (Numbers part : parts) {
      if (Found found = overlap_of(part)) return found;
    }
    return std::nullopt;
  }
  return overlap_of_pairs(slices);
}

}  // namespace

bool is_inside(const Slice& slice, const std::vector<std::int64_t>& shape) {
  bool is_inside = slice.offset.size() == shape.size() && slice.size.size() == shape.size();
  for (std::size_t axis = 0; is_inside && axis < shape.size(); ++axis)
    is_inside = slice.size[axis] <= shape[axis] && slice.offset[axis] <= shape[axis] - slice.size[axis];
  return is_inside;
}

std::optional<std::pair<std::size_t, std::size_t>> find_overlap(const std::vector<const Slice*>& slices) {
  std::vector<Numbered> numbered;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (slices[i]->count() > 0) numbered.push_back({slices[i], i});
  }
  return overlap_of(numbered);
}

}  // namespace mtl
