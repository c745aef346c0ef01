// Operations between ranks, compared with times computed by hand.
#include "planner/links.h"

#include <doctest/doctest.h>

#include "base/error.h"

using namespace mtl;

namespace {

Layout layout_of(const GridSizes& sizes) {
  Layout layout;
  layout.grid = RankGrid(sizes);
  return layout;
}

constexpr Links kLinks = {.inside_gbs = 100, .between_gbs = 10, .inside_us = 2, .between_us = 7};

}  // namespace

TEST_CASE("places: groups inside a node and across nodes") {
  const Layout layout = layout_of({.tensor = 4, .data = 4, .pipeline = 2});
  const GroupPlace tensor = place_of_group(layout, "tensor", 8), data = place_of_group(layout, "data", 8);
  CHECK(tensor.size == 4);
  CHECK(!tensor.crosses_nodes());
  CHECK(data.size == 4);
  CHECK(data.nodes == 2);
  CHECK(data.per_node == 2);
  const GroupPlace embedding = place_of_group(layout, "embedding", 8);
  for (const auto& [name, ranks, nodes] : {std::tuple("context", 1, 1), {"pipeline", 2, 2}}) {
    CHECK(place_of_group(layout, name, 8).size == ranks);
    CHECK(place_of_group(layout, name, 8).nodes == nodes);
  }
  CHECK(place_of_group(layout_of({.context = 3, .data = 2}), "context", 8).size == 3);
  CHECK(place_of_group(layout_of({.context = 3, .data = 2}), "data", 8).size == 6);  // all replicas
  CHECK_THROWS_AS(place_of_group(layout, "expert", 8), Error);
  CHECK(embedding.size == 2);
  CHECK(embedding.nodes == 2);
  CHECK(embedding.per_node == 1);
}

TEST_CASE("places: the slowest group counts") {
  // Nodes of 3 cut some of the groups of 2.
  const GroupPlace place = place_of_group(layout_of({.tensor = 2, .data = 3}), "tensor", 3);
  CHECK(place.nodes == 2);
  CHECK(place.per_node == 1);
  // Nodes of 4 cut the first of three groups once, and the last, ranks 2, 5 and 8, twice.
  const GroupPlace last = place_of_group(layout_of({.tensor = 3, .data = 3}), "data", 4);
  CHECK(last.nodes == 3);
  CHECK(last.per_node == 1);
}

TEST_CASE("operations take their bytes and the latency of a ring") {
  // 1 MB at 100 GB/s: 10 us. A ring of 4 ranks inside a node: 3 links.
  const GroupPlace inside{.size = 4, .nodes = 1, .per_node = 4};
  CHECK(operation_ms(OperationKind::all_gather, 1e6, inside, kLinks) == doctest::Approx(0.010 + 0.006));
  CHECK(operation_ms(OperationKind::reduce_scatter, 1e6, inside, kLinks) == doctest::Approx(0.010 + 0.006));
  CHECK(operation_ms(OperationKind::all_reduce, 1e6, inside, kLinks) == doctest::Approx(0.010 + 0.012));
  // Two nodes with 2 ranks each send over 2 links of 10 GB/s: 50 us. Of 3 links on the way around, one is between them.
  const GroupPlace across{.size = 4, .nodes = 2, .per_node = 2};
  CHECK(operation_ms(OperationKind::all_gather, 1e6, across, kLinks) == doctest::Approx(0.050 + 0.007 + 0.004));
  // With 16 ranks on each node, the links inside are the slower ones.
  const GroupPlace many{.size = 32, .nodes = 2, .per_node = 16};
  CHECK(operation_ms(OperationKind::all_gather, 1e6, many, kLinks) == doctest::Approx(0.010 + 0.007 + 30 * 0.002));
  for (const OperationKind kind : {OperationKind::send, OperationKind::receive}) {
    CHECK(operation_ms(kind, 1e6, inside, kLinks) == message_ms(1e6, false, kLinks));
    CHECK(operation_ms(kind, 1e6, across, kLinks) == message_ms(1e6, true, kLinks));
  }
  CHECK(message_ms(1e6, false, kLinks) == doctest::Approx(0.010 + 0.002));
  CHECK(message_ms(1e6, true, kLinks) == doctest::Approx(0.100 + 0.007));
  CHECK(operation_ms(OperationKind::all_reduce, 1e6, {.size = 1}, kLinks) == 0);
}
