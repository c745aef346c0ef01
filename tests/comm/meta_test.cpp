// Groups on paper: what they would send, and the groups of each rank of a grid.
#include <doctest/doctest.h>

#include "comm/agreement.h"
#include "comm/groups.h"
#include "comm/text_exchange.h"

using namespace mtl;

TEST_CASE("meta communicator: counts bytes, checks shapes") {
  Stream stream(Device::meta);
  MetaCommunicator group(1, 4);
  auto sent = [&, before = 0.0]() mutable {
    double now = group.sent_bytes(), step = now - before;
    before = now;
    return step;
  };
  Tensor whole(nullptr, DType::f32, {100, 4}), part(nullptr, DType::f32, {100});
  group.all_reduce(stream, whole, Reduce::sum).wait();
  CHECK(sent() == 2 * 1600 * 3 / 4);
  group.all_gather(stream, whole, part).wait();
  CHECK(sent() == 1600 * 3 / 4);
  group.reduce_scatter(stream, part, whole).wait();
  CHECK(sent() == 1600 * 3 / 4);
  group.broadcast(stream, part, 1).wait();
  CHECK(sent() == 400 * 3);
  group.broadcast(stream, part, 0).wait();
  CHECK(sent() == 0);
  group.send(stream, part, 3).wait();
  CHECK(sent() == 400);
  group.receive(stream, part, 3).wait();
  CHECK(sent() == 0);
  CHECK_THROWS_AS(group.all_gather(stream, whole, whole), Error);
  CHECK_THROWS_AS(group.send(stream, part, 1), Error);
  CHECK_THROWS_AS(group.receive(stream, part, 4), Error);
}

TEST_CASE("groups on paper: sizes and places of every rank") {
  GridSizes sizes;
  sizes.tensor = 2;
  sizes.context = 2;
  sizes.data = 3;
  sizes.pipeline = 4;
  RankGrid grid(sizes);
  for (int rank = 0; rank < grid.world(); ++rank) {
    CAPTURE(rank);
    ProcessGroups groups = meta_groups(grid, rank, true);
    CHECK(groups.world->size() == 48);
    CHECK(groups.world->rank() == rank);
    CHECK(groups.tensor->size() == 2);
    CHECK(groups.tensor->rank() == grid.coordinate(rank, Axis::tensor));
    CHECK(groups.pipeline->size() == 4);
    CHECK(groups.pipeline->rank() == grid.coordinate(rank, Axis::pipeline));
    CHECK(groups.context->size() == 2);
    CHECK(groups.data->size() == 6);
    int stage = grid.coordinate(rank, Axis::pipeline);
    CHECK(groups.embedding->size() == (stage == 0 || stage == 3 ? 2 : 1));
    CHECK(groups.embedding->rank() == (stage == 3 ? 1 : 0));
    CHECK(groups.shards->size() == 6);
    CHECK(groups.replicas->size() == 1);
    ProcessGroups copies = meta_groups(grid, rank, false);
    CHECK(copies.shards->size() == 1);
    CHECK(copies.replicas->size() == 6);
  }
}

TEST_CASE("texts and agreement in a group of one") {
  SelfCommunicator self;
  Stream stream(Device::cpu);
  CHECK(gather_texts(self, stream, "abc") == std::vector<std::string>{"abc"});
  CHECK(gather_texts(self, stream, "") == std::vector<std::string>{""});
  CHECK(broadcast_text(self, stream, "abc", 0) == "abc");
  CHECK_NOTHROW(check_same(self, stream, {"host"}, {{"program", "1"}}));
}
