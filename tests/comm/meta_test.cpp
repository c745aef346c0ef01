// Meta groups: how many bytes a rank would send, and which groups each rank of a grid belongs to.
#include <doctest/doctest.h>

#include "base/str.h"
#include "comm/agreement.h"
#include "comm/groups.h"
#include "comm/text_exchange.h"
#include "tests/error_of.h"

using namespace mtl;
using test::error_of;

TEST_CASE("meta communicator: counts bytes, checks shapes") {
  Stream stream(Device::meta);
  MetaCommunicator group(1, 4);
  std::int64_t operations = 0;
  auto sent = [&] {
    const Traffic traffic = group.take_traffic();
    operations += traffic.operations;
    return traffic.bytes;
  };
  Tensor whole(nullptr, DType::f32, {100, 4}), part(nullptr, DType::f32, {100});
  group.all_reduce(stream, whole).wait(stream);
  CHECK(sent() == 2 * 1600 * 3 / 4);
  group.all_gather(stream, whole, part).wait(stream);
  CHECK(sent() == 1600 * 3 / 4);
  group.reduce_scatter(stream, part, whole).wait(stream);
  CHECK(sent() == 1600 * 3 / 4);
  group.broadcast(stream, part, 1).wait(stream);
  CHECK(sent() == 400 * 3);
  group.broadcast(stream, part, 0).wait(stream);
  CHECK(sent() == 0);
  group.send(stream, part, 3, Channel::activations).wait(stream);
  CHECK(sent() == 400);
  group.receive(stream, part, 3, Channel::activations).wait(stream);
  CHECK(sent() == 0);
  CHECK(operations == 6);  // all but the receive
  CHECK_THROWS_AS(group.all_gather(stream, whole, whole), Error);
  CHECK_THROWS_AS(group.reduce_scatter(stream, whole, whole), Error);
  CHECK_THROWS_AS(group.send(stream, part, 1, Channel::activations), Error);
  CHECK_THROWS_AS(group.send(stream, part, -1, Channel::activations), Error);
  CHECK_NOTHROW(group.send(stream, part, 0, Channel::activations));
  CHECK_THROWS_AS(group.receive(stream, part, 4, Channel::gradients), Error);
}

TEST_CASE("meta communicator: a profile has the starts of operations, and what each wait is for") {
  Stream stream(Device::meta);
  Profile profile(Device::meta);
  MetaCommunicator group(0, 2, "tensor");
  Tensor whole(nullptr, DType::f32, {4}), part(nullptr, DType::f32, {2});
  group.all_reduce(stream, whole).wait(stream);  // not profiled
  stream.set_profile(&profile);
  const Work sum = group.all_reduce(stream, whole), all = group.all_gather(stream, whole, part);
  all.wait(stream);
  sum.wait(stream);
  SelfCommunicator().all_reduce(stream, whole).wait(stream);
  stream.set_profile(nullptr);
  sum.wait(stream);
  std::string text;
  for (const ProfileEntry& entry : profile.entries()) {
    CHECK(entry.kind == ProfileKind::communication);
    text += entry.started < 0 ? cat(entry.name, " ", entry.detail, " ", entry.work.bytes, "; ")
                              : cat(entry.name, " ", entry.started, "; ");
  }
  CHECK(text == "all-reduce tensor 16; all-gather tensor 8; wait 1; wait 0; ");
}

TEST_CASE("meta groups: sizes and positions of every rank") {
  Layout layout{.grid = RankGrid({.tensor = 2, .context = 2, .data = 3, .pipeline = 4})};
  const RankGrid& grid = layout.grid;
  for (int rank = 0; rank < grid.world(); ++rank) {
    CAPTURE(rank);
    layout.rank = rank;
    ProcessGroups groups = meta_groups(layout);
    CHECK(groups.world().size() == 48);
    CHECK(groups.world().rank() == rank);
    CHECK(groups.over(Axis::tensor).size() == 2);
    CHECK(groups.over(Axis::tensor).rank() == grid.coordinate(rank, Axis::tensor));
    CHECK(groups.over(Axis::pipeline).size() == 4);
    CHECK(groups.over(Axis::pipeline).rank() == grid.coordinate(rank, Axis::pipeline));
    CHECK(groups.over(Axis::context).size() == 2);
    CHECK(groups.over(kReplicaAxes).size() == 6);
    int stage = grid.coordinate(rank, Axis::pipeline);
    CHECK(groups.tied().size() == (stage == 0 || stage == 3 ? 2 : 1));
    CHECK(groups.tied().rank() == (stage == 3 ? 1 : 0));
    CHECK(groups.over({}).size() == 1);
    CHECK(&groups.over({Axis::tensor, Axis::expert}) == &groups.over(Axis::tensor));  // the expert axis has one rank
    CHECK_THROWS_AS(groups.over({Axis::tensor, Axis::pipeline}), Error);
    CHECK(groups.all().size() == (stage == 0 || stage == 3 ? 6 : 5));
  }
}

TEST_CASE("the groups of a V have none for the tied embedding, which only its first stage has") {
  Layout layout{.grid = RankGrid({.pipeline = 2}), .schedule = ScheduleKind::zero_bubble_v, .chunks = 2};
  CHECK(meta_groups(layout).all().size() == 2);  // the control group and the stages
  CHECK(meta_groups(layout).tied().size() == 1);
  layout.schedule = ScheduleKind::interleaved;
  CHECK(meta_groups(layout).all().size() == 3);
  CHECK(meta_groups(layout).tied().size() == 2);
}

TEST_CASE(
    "groups: each set of ranks has one communicator, made in the same order on every rank, and one rank has none") {
  const auto made = [](const GridSizes& sizes) {
    std::string out;
    const ProcessGroups groups({.grid = RankGrid(sizes)}, [&](const std::vector<int>& ranks, const std::string& name) {
      for (const int rank : ranks) out += cat(rank, " ");
      out += cat(name, "; ");
      return std::make_shared<MetaCommunicator>(0, static_cast<int>(ranks.size()), name);
    });
    return out;
  };
  CHECK(made({}) == "");
  CHECK(made({.tensor = 2}) == "0 1 world; 0 1 tensor; ");
  CHECK(made({.context = 2}) == "0 1 world; 0 1 context; ");
  CHECK(made({.tensor = 2, .data = 2}) == "0 1 2 3 world; 0 1 tensor; 0 2 data; ");
  CHECK(made({.pipeline = 2}) == "0 1 world; 0 1 pipeline; 0 1 embedding; ");
}

TEST_CASE("traffic has the name of its group, and that of a group with two purposes counts once") {
  const auto sent = [](const GridSizes& sizes, AxisSet axes) {
    const ProcessGroups groups = meta_groups({.grid = RankGrid(sizes)});
    Stream stream(Device::meta);
    groups.over(axes).all_reduce(stream, Tensor(nullptr, DType::f32, {100}));
    std::string text;
    for (const auto& [group, traffic] : groups.take_traffic()) text += cat(group, " ", traffic.bytes, "; ");
    for (const auto& [group, traffic] : groups.take_traffic()) CHECK(traffic == Traffic{});
    return text;
  };
  CHECK(sent({.tensor = 2}, Axis::tensor) == "tensor 400; pipeline 0; context 0; data 0; embedding 0; ");
  CHECK(sent({.data = 2}, kReplicaAxes) == "tensor 0; pipeline 0; context 0; data 400; embedding 0; ");
  CHECK(sent({.context = 2, .data = 2}, kReplicaAxes) == "tensor 0; pipeline 0; context 0; data 600; embedding 0; ");
  CHECK(sent({.context = 2, .data = 2}, Axis::context) == "tensor 0; pipeline 0; context 400; data 0; embedding 0; ");
  CHECK(sent({.context = 2}, kReplicaAxes) == "tensor 0; pipeline 0; context 400; embedding 0; ");
}

TEST_CASE("groups without a failed one are intact, also on one rank") {
  CHECK(ProcessGroups().is_intact());
  CHECK(meta_groups({.grid = RankGrid({.data = 2})}).is_intact());
}

TEST_CASE("a group of one rank copies, and has no peers") {
  SelfCommunicator self;
  Stream stream(Device::cpu);
  std::vector<float> in = {1, 2}, gathered(2), scattered(2);
  const auto tensor = [](std::vector<float>& values) { return Tensor(values.data(), DType::f32, {2}); };
  self.all_gather(stream, tensor(gathered), tensor(in));
  self.reduce_scatter(stream, tensor(scattered), tensor(in));
  CHECK(gathered == in);
  CHECK(scattered == in);
  CHECK(error_of([&] { self.all_gather(stream, tensor(gathered), tensor(in).flat(0, 1)); }) ==
        "all-gather in group 'self' of 1 rank: (2) float32 is not 1 times (1) float32");
  CHECK(error_of([&] { self.send(stream, tensor(in), 0, Channel::activations); }) ==
        "send in group 'self' of 1 rank: no peer 0");
  CHECK(error_of([&] { self.receive(stream, tensor(in), 0, Channel::activations); }) ==
        "receive in group 'self' of 1 rank: no peer 0");
}

TEST_CASE("a group of one rank gathers and broadcasts its own text, and agrees with itself") {
  SelfCommunicator self;
  CHECK(gather_texts(self, "abc") == std::vector<std::string>{"abc"});
  CHECK(gather_texts(self, "") == std::vector<std::string>{""});
  CHECK(broadcast_text(self, "abc", 0) == "abc");
  CHECK_NOTHROW(check_same(self, {"host"}, {{"program", "1"}}));
}
