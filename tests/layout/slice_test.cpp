// Slice overlaps, compared with brute-force lists of elements.
#include "layout/slice.h"

#include <doctest/doctest.h>

#include <map>
#include <random>

using namespace mtl;

namespace {

/// Returns the whole-tensor indices of a slice's elements, in storage order.
std::vector<std::int64_t> elements(const Slice& slice, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> out;
  for (std::int64_t e = slice.begin; e < slice.end; ++e) {
    std::int64_t remaining = e, global = 0, stride = 1;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      global += (slice.offset[axis] + remaining % slice.size[axis]) * stride;
      remaining /= slice.size[axis];
      stride *= shape[axis];
    }
    out.push_back(global);
  }
  return out;
}

Slice random_slice(std::mt19937& random, const std::vector<std::int64_t>& shape) {
  Slice slice;
  std::int64_t count = 1;
  for (std::int64_t size : shape) {
    std::int64_t offset = random() % static_cast<unsigned>(size);
    slice.offset.push_back(offset);
    slice.size.push_back(1 + random() % static_cast<unsigned>(size - offset));
    count *= slice.size.back();
  }
  slice.begin = random() % static_cast<unsigned>(count + 1);
  slice.end = slice.begin + random() % static_cast<unsigned>(count - slice.begin + 1);
  return slice;
}

}  // namespace

TEST_CASE("overlaps contain exactly the common elements") {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::int64_t> shape;
    for (unsigned axis = 0; axis < 1 + random() % 4; ++axis) shape.push_back(1 + random() % 5);
    Slice a = random_slice(random, shape), b = random_slice(random, shape);
    std::map<std::int64_t, std::int64_t> at_b;
    std::vector<std::int64_t> elements_a = elements(a, shape), elements_b = elements(b, shape);
    for (std::size_t i = 0; i < elements_b.size(); ++i) at_b[elements_b[i]] = static_cast<std::int64_t>(i);
    std::vector<std::pair<std::int64_t, std::int64_t>> expected, found;
    for (std::size_t i = 0; i < elements_a.size(); ++i) {
      if (at_b.count(elements_a[i]) != 0) expected.emplace_back(i, at_b[elements_a[i]]);
    }
    for_each_overlap(a, b, [&](const Overlap& overlap) {
      for (std::int64_t i = 0; i < overlap.count; ++i) found.emplace_back(overlap.in_a + i, overlap.in_b + i);
    });
    CHECK(found == expected);
  }
}

TEST_CASE("boxes that meet share no elements unless their ranges do") {
  const Slice first = narrow(whole_slice({6, 4}), 0, 4, 2);
  CHECK(first.offset == std::vector<std::int64_t>{4, 0});
  CHECK(first.count() == 8);
  CHECK(!boxes_meet(first, narrow(whole_slice({6, 4}), 0, 0, 4)));
  Slice second = first;
  CHECK(share_elements(first, second));
  second.begin = second.end;
  CHECK(boxes_meet(first, second));
  CHECK(!share_elements(first, second));
}
