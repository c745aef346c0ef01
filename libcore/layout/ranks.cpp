#include "layout/ranks.h"

#include <algorithm>
#include <numeric>

#include "base/enum_index.h"
#include "base/error.h"
#include "base/str.h"

namespace mtl {

namespace {

/// Parses axis names: "dp-cp" gives {data, context}.
std::vector<Axis> parse_order(const std::string& token) {
  std::vector<Axis> axes;
  for (const std::string& word : split(token, '-')) {
    auto found = std::find_if(kAllAxes.begin(), kAllAxes.end(), [&](Axis axis) { return word == short_name(axis); });
    if (found == kAllAxes.end())
      fail_at(Exit::usage, cat("order of ranks ", token), "names '", word, "', which is not an axis");
    if (std::find(axes.begin(), axes.end(), *found) != axes.end())
      fail_at(Exit::usage, cat("order of ranks ", token), "names ", word, " twice");
    axes.push_back(*found);
  }
  return axes;
}

/// Returns the first and the last rank of a pipeline group, which may be the same.
std::vector<int> ends_of(const std::vector<int>& group) {
  return group.size() > 2 ? std::vector{group.front(), group.back()} : group;
}

}  // namespace

const char* short_name(Axis axis) {
  constexpr const char* kNames[] = {"tp", "cp", "ep", "dp", "pp"};
  return kNames[enum_index(axis)];
}

RankGrid::RankGrid(GridSizes sizes, const std::string& order) : sizes_(sizes.by_axis()) {
  for (Axis axis : kAllAxes) {
    if (size(axis) < 1) fail(Exit::usage, "layout: ", short_name(axis), " is ", size(axis), ", but must be at least 1");
  }
  std::vector<Axis> axes = parse_order(order);
  for (Axis axis : kAllAxes) {
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) continue;
    if (size(axis) != 1)
      fail_at(Exit::usage, cat("order of ranks ", order), "omits ", short_name(axis), ", which has several ranks");
    axes.push_back(axis);
  }
  std::copy(axes.begin(), axes.end(), order_.begin());
  int stride = 1;
  for (Axis axis : order_) {
    strides_[enum_index(axis)] = stride;
    stride *= size(axis);
  }
}

int RankGrid::coordinate(int rank, Axis axis) const { return rank / strides_[enum_index(axis)] % size(axis); }

int RankGrid::rank_at(const GridCoordinates& coordinates) const {
  const AxisNumbers numbers = coordinates.by_axis();
  return std::inner_product(numbers.begin(), numbers.end(), strides_.begin(), 0);
}

int RankGrid::size(AxisSet axes) const {
  int product = 1;
  for (Axis axis : kAllAxes) product *= axes.contains(axis) ? size(axis) : 1;
  return product;
}

std::vector<int> RankGrid::group_of(int rank, AxisSet axes) const {
  std::vector<int> members = {rank};
  for (Axis axis : order_) {
    if (axes.contains(axis)) members.front() -= coordinate(rank, axis) * strides_[enum_index(axis)];
  }
  for (Axis axis : order_) {  // fastest axis first, so members are in ascending order
    if (!axes.contains(axis)) continue;
    std::size_t count = members.size();
    for (int step = 1; step < size(axis); ++step) {
      for (std::size_t i = 0; i < count; ++i) members.push_back(members[i] + step * strides_[enum_index(axis)]);
    }
  }
  return members;
}

int RankGrid::index_in_group(int rank, AxisSet axes) const {
  int group_index = 0, stride = 1;
  for (Axis axis : order_) {
    if (!axes.contains(axis)) continue;
    group_index += coordinate(rank, axis) * stride;
    stride *= size(axis);
  }
  return group_index;
}

std::vector<std::vector<int>> RankGrid::groups(AxisSet axes) const {
  // Megatron-LM orders groups by their coordinates along all other axes. Ordering them by first member is equivalent.
  std::vector<std::vector<int>> out;
  for (int rank = 0; rank < world(); ++rank) {
    if (index_in_group(rank, axes) == 0) out.push_back(group_of(rank, axes));
  }
  return out;
}

std::vector<std::vector<int>> RankGrid::embedding_groups() const {
  std::vector<std::vector<int>> out = groups(Axis::pipeline);
  for (std::vector<int>& group : out) group = ends_of(group);
  return out;
}

std::vector<int> RankGrid::embedding_group_of(int rank) const {
  const std::vector<int> ends = ends_of(group_of(rank, Axis::pipeline));
  return rank == ends.front() || rank == ends.back() ? ends : std::vector{rank};
}

std::vector<std::vector<int>> RankGrid::position_embedding_groups() const {
  std::vector<std::vector<int>> out = groups(Axis::pipeline);
  for (std::vector<int>& group : out) group.resize(1);
  return out;
}

}  // namespace mtl
