// Ownership, by its definition: elements are counted on all ranks of a grid, one by one.
#include "layout/ownership.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "base/error.h"

using namespace mtl;

namespace {

struct Tensor {
  const char* name;
  Ownership ownership;
  std::vector<std::int64_t> shape;
  std::int64_t padded_rows = 0;
};

/// Tensors of every kind, whose optimizer state is sharded over `owners`.
std::vector<Tensor> tensors(AxisSet owners) {
  return {{"split along rows", {.shards = {{0, Axis::tensor}}, .owners = owners}, {16, 3}},
          {"split along columns", {.shards = {{1, Axis::tensor}}, .owners = owners}, {3, 16}},
          {"whole", {.owners = owners}, {21}},
          {"with partial gradients", {.partial = Axis::tensor, .owners = owners}, {21}},
          {"a table with padding", {.shards = {{0, Axis::tensor}}, .owners = owners}, {19, 2}, 24},
          {"a tied table", {.shards = {{0, Axis::tensor}}, .owners = owners, .on_end_stages = true}, {19, 2}, 24}};
}

std::int64_t product(const std::vector<std::int64_t>& sizes) {
  std::int64_t out = 1;
  for (const std::int64_t size : sizes) out *= size;
  return out;
}

/// The flat index of every element of a slice in the entire tensor, in the slice's order.
std::vector<std::int64_t> elements_of(const Slice& slice, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> out;
  const std::int64_t rows = slice.size[0], columns = shape.size() > 1 ? slice.size[1] : 1;
  const std::int64_t width = shape.size() > 1 ? shape[1] : 1, column = shape.size() > 1 ? slice.offset[1] : 0;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) out.push_back((slice.offset[0] + r) * width + column + c);
  return out;
}

/// How often ranks update and write each element, by stage and, for `updated`, by the replica.
struct Tally {
  std::map<int, std::vector<int>> written;
  std::map<std::pair<int, int>, std::vector<int>> updated;
};

Tally tally(const Tensor& t, const RankGrid& grid) {
  Tally out;
  const auto whole = static_cast<std::size_t>(product(t.shape));
  const std::int64_t owners = grid.size(t.ownership.owners);
  const std::int64_t memory = product(held_shape(t.ownership, t.shape, t.padded_rows, grid));
  for (int rank = 0; rank < grid.world(); ++rank) {
    const Slice slice = held(t.ownership, t.shape, t.padded_rows, grid, rank);
    const std::vector<std::int64_t> elements = elements_of(slice, t.shape);
    REQUIRE(std::ssize(elements) <= memory);
    const ElementRange own = owned_range(t.ownership, (memory + owners - 1) / owners * owners, grid, rank);
    const int stage = grid.coordinate(rank, Axis::pipeline);
    // With owners, the replicas together update an element once; otherwise, each does.
    const int replica = grid.index_in_group(rank, t.ownership.replicas - t.ownership.owners);
    const auto in = [&](auto& map, const auto& key) -> std::vector<int>& {
      return map.try_emplace(key, whole).first->second;
    };
    for (std::int64_t i = own.begin; i < std::min(own.end, std::ssize(elements)); ++i) {
      ++in(out.updated, std::pair(stage, replica))[elements[i]];
      if (writes(t.ownership, grid, rank)) ++in(out.written, stage)[elements[i]];
    }
  }
  return out;
}

bool all_equal(const std::vector<int>& found, int value) {
  return std::all_of(found.begin(), found.end(), [&](int n) { return n == value; });
}

void check(const RankGrid& grid, AxisSet owners) {
  const int stages = grid.size(Axis::pipeline), tensor = grid.size(Axis::tensor);
  int summed = 1;  // ranks whose terms reach every rank, each once
  for (const AxisSet axes : kWriterAxes) summed *= grid.size(axes);
  CHECK(summed == grid.world());
  for (const Tensor& t : tensors(owners)) {
    CAPTURE(t.name);
    const Tally found = tally(t, grid);
    CHECK(std::ssize(found.written) == (t.ownership.on_end_stages ? 1 : stages));
    CHECK(std::ssize(found.updated) == stages * grid.size(kReplicaAxes - owners));
    for (const auto& [stage, times] : found.written) CHECK(all_equal(times, 1));
    for (const auto& [place, times] : found.updated) CHECK(all_equal(times, t.ownership.shards.empty() ? tensor : 1));
  }
}

}  // namespace

TEST_CASE("ownership: in every grid of up to 64 ranks, each element is updated and written once") {
  int grids = 0;
  for (const int tensor : {1, 2, 8})
    for (const int context : {1, 2})
      for (const int data : {1, 3, 4})
        for (const int pipeline : {1, 2, 5})
          for (const char* order : {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"}) {
            const GridSizes sizes{.tensor = tensor, .context = context, .data = data, .pipeline = pipeline};
            const RankGrid grid(sizes, order);
            if (grid.world() > 64) continue;
            ++grids;
            CAPTURE(order);
            for (const AxisSet owners : {AxisSet(), kReplicaAxes}) check(grid, owners);
          }
  CHECK(grids > 60);
}

TEST_CASE("ownership: the same on 65,536 ranks") {
  check(RankGrid({.tensor = 8, .context = 2, .data = 64, .pipeline = 64}), kReplicaAxes);
}

TEST_CASE("ownership: sizes that cannot be divided are refused") {
  const RankGrid grid({.tensor = 4, .data = 2});
  CHECK_THROWS_WITH(held_shape({.shards = {{0, Axis::tensor}}}, {10, 3}, 0, grid),
                    "10 is not divisible by the 4 ranks of the axis tp");
  CHECK_THROWS_WITH(owned_range({.owners = kReplicaAxes}, 3, grid, 0), "3 elements cannot be divided among 2 owners");
}
