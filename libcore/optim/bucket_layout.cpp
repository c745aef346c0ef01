#include "optim/bucket_layout.h"

#include <algorithm>
#include <utility>

namespace mtl {

namespace {

std::int64_t round_up(std::int64_t n, std::int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

Bucket::Range range_within(const Segment& segment, std::int64_t begin, std::int64_t end) {
  begin = std::max(begin, segment.begin);
  end = std::min(end, segment.begin + segment.count);
  return {begin, std::max<std::int64_t>(0, end - begin)};
}

class BucketMaker {
 public:
  BucketMaker(const std::vector<ParamSpec>& specs, std::int64_t alignment, const Layout& layout, const RuleSet& rules)
      : specs_(specs), alignment_(alignment), layout_(layout), rules_(rules) {
    out_.places.resize(specs.size());
  }

  /// Appends a parameter to its bucket in the current group.
  void add(int param, std::int64_t count) {
    BucketKey key(specs_[param], rules_.traits(specs_[param]));
    Bucket& bucket = group_.try_emplace(key, Bucket{key}).first->second;
    bucket.segments.push_back({.param = param, .begin = bucket.count, .count = count});
    bucket.count += round_up(count, alignment_);
    if (!key.ownership.on_end_stages) elements_ += count;
  }
  /// Returns the elements in the current group, except in the tied embedding.
  std::int64_t elements() const { return elements_; }
  void end_group() {
    const std::size_t begin = out_.buckets.size();
    for (auto& [key, bucket] : group_) complete(std::move(bucket));
    if (!group_.empty()) out_.groups.push_back({begin, out_.buckets.size()});
    group_.clear();
    elements_ = 0;
  }
  /// Appends a bucket for the gradient of the head's use of the tied embedding. It is laid out like the embedding's.
  void add_head_gradient(int head_unit) {
    const auto embedding = std::find_if(out_.buckets.begin(), out_.buckets.end(),
                                        [](const Bucket& bucket) { return bucket.key.ownership.on_end_stages; });
    Bucket bucket = *embedding;
    bucket.segments = {};
    bucket.added_to = embedding - out_.buckets.begin();
    ++embedding->units;
    std::vector<std::size_t>& of_head = out_.of_unit[head_unit];
    of_head.insert(of_head.end(), {*bucket.added_to, out_.buckets.size()});
    out_.groups[bucket.group].end = out_.buckets.size() + 1;
    out_.buckets.push_back(std::move(bucket));
  }
  BucketLayout take() {
    int turns = 0;
    for (UnitGroup& group : out_.groups) {
      for (std::size_t b = group.begin; b < group.end; ++b) {
        group.elements += out_.buckets[b].count;
        group.is_tied |= out_.buckets[b].key.ownership.on_end_stages;
      }
      group.buffer = group.is_tied ? UnitGroup::kRing : turns++ % UnitGroup::kRing;
    }
    return std::move(out_);
  }

 private:
  /// Pads a bucket, sets the range that this rank owns, and appends it.
  void complete(Bucket bucket) {
    const Ownership& own = bucket.key.ownership;
    bucket.count = round_up(bucket.count, alignment_ * layout_.size(own.owners));
    const ElementRange owned = owned_range(own, bucket.count, layout_.grid, layout_.rank);
    bucket.owned_begin = owned.begin;
    bucket.owned_end = owned.end;
    bucket.group = out_.groups.size();
    const std::size_t number = out_.buckets.size();
    for (const Segment& segment : bucket.segments) {
      out_.places[segment.param] = {number, segment};
      std::vector<std::size_t>& of_unit = out_.of_unit[specs_[segment.param].unit];
      if (of_unit.empty() || of_unit.back() != number) {
        of_unit.push_back(number);
        ++bucket.units;
      }
    }
    out_.buckets.push_back(std::move(bucket));
  }

  const std::vector<ParamSpec>& specs_;
  std::int64_t alignment_;
  const Layout& layout_;
  const RuleSet& rules_;
  std::map<BucketKey, Bucket> group_;
  std::int64_t elements_ = 0;
  BucketLayout out_;
};

}  // namespace

Bucket::Range Bucket::owned(const Segment& segment) const { return range_within(segment, owned_begin, owned_end); }

Bucket::Range Bucket::owned_by(int index, const Segment& segment) const {
  std::int64_t length = owned_end - owned_begin;
  return range_within(segment, index * length, (index + 1) * length);
}

std::vector<Bucket::Range> Bucket::owned_without_gaps() const {
  std::vector<Range> ranges;
  for (const Segment& segment : segments) {
    const Range range = owned(segment);
    if (range.count == 0) continue;
    if (!ranges.empty() && ranges.back().begin + ranges.back().count == range.begin)
      ranges.back().count += range.count;
    else
      ranges.push_back(range);
  }
  return ranges;
}

BucketLayout lay_out_buckets(const std::vector<ParamSpec>& specs, const std::vector<Shape>& shapes,
                             std::int64_t alignment, const Layout& layout, std::int64_t bucket_elements,
                             const RuleSet& rules, std::optional<int> head_unit) {
  BucketMaker maker(specs, alignment, layout, rules);
  for (std::size_t i = specs.size(); i-- > 0;) {
    const bool is_first = i + 1 == specs.size();
    const bool begins_unit = is_first || specs[i].unit != specs[i + 1].unit;
    // A chunk's backward must complete the groups that take turns in the ring.
    const bool begins_chunk = !is_first && specs[i].chunk != specs[i + 1].chunk;
    if ((begins_unit && maker.elements() >= bucket_elements) || (layout.shards_gradients() && begins_chunk))
      maker.end_group();
    maker.add(static_cast<int>(i), shapes[i].numel());
  }
  maker.end_group();
  if (head_unit) maker.add_head_gradient(*head_unit);
  return maker.take();
}

std::vector<std::int64_t> buffer_elements(const std::vector<UnitGroup>& groups) {
  std::vector<std::int64_t> elements;
  for (const UnitGroup& group : groups) {
    elements.resize(std::max<std::size_t>(elements.size(), group.buffer + 1));
    elements[group.buffer] = std::max(elements[group.buffer], group.elements);
  }
  return elements;
}

}  // namespace mtl
