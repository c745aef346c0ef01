// Divides a rank's parameters into buckets, and the units into groups: arithmetic without memory.
//
// A unit is the embedding, a layer, or the head. Units are laid out from last to first, because backward finishes the
// last unit first. Consecutive units form a group. A group is complete once it has at least `bucket_elements` elements.
// Units are never split between groups, so a unit's memory is gathered and reduced as a whole.
//
// Within a group, parameters share a bucket if their gradients are summed over the same ranks and they are updated in
// the same way. It takes one call each to reduce, update and gather a bucket. A tied embedding has a separate bucket.
// If this rank has both the embedding and the head, but in different chunks, the head's use of the tied embedding has a
// gradient and a bucket of its own. Both gradients are reduced, and then added, as if they were on two ranks.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "layout/layout.h"
#include "optim/bucket.h"

namespace mtl {

/// Consecutive units, and the buffer that they use if their values or gradients are gathered in working memory. Groups
/// take turns in a ring of two buffers. The group that has a tied embedding has a third one, because the embedding and
/// the head both use it.
struct UnitGroup {
  static constexpr int kRing = 2;
  std::size_t begin = 0, end = 0;  // its buckets
  std::int64_t elements = 0;       // including padding
  bool is_tied = false;            // has the tied embedding
  int buffer = 0;                  // in the ring, or kRing
};

struct BucketLayout {
  struct Place {
    std::size_t bucket = 0;
    Segment segment = {};
  };
  std::vector<Bucket> buckets = {};  // without memory
  std::vector<UnitGroup> groups = {};
  std::vector<Place> places = {};                        // by parameter
  std::map<int, std::vector<std::size_t>> of_unit = {};  // by unit: the buckets that hold its parameters or gradients
};

/// Lays out parameters, which are in forward order and whose shapes in this rank's memory are `shapes`. Each starts at
/// a multiple of `alignment` elements. A group ends after a unit with which it has at least `bucket_elements`. If
/// gradients are sharded, groups also end where chunks do. `head_unit` is the head's unit if its use of the tied
/// embedding needs a gradient of its own.
BucketLayout lay_out_buckets(const std::vector<ParamSpec>& specs, const std::vector<Shape>& shapes,
                             std::int64_t alignment, const Layout& layout, std::int64_t bucket_elements,
                             const RuleSet& rules, std::optional<int> head_unit);

/// Returns the sizes of the buffers in working memory, in elements: each is as large as its largest group.
std::vector<std::int64_t> buffer_elements(const std::vector<UnitGroup>& groups);

}  // namespace mtl
