// What ranks agree on: differences, errors and answers, on ranks that are threads.
#include "comm/agreement.h"

#include <doctest/doctest.h>

#include "base/str.h"
#include "comm/operation_label.h"
#include "comm/rank_outcome.h"
#include "tests/comm/thread_group.h"
#include "tests/error_of.h"

using namespace mtl;

namespace {

/// Returns the message of check_same() with one item, whose text on each rank is given. All ranks must throw it.
std::string disagreement(const std::vector<std::string>& texts) {
  std::vector<std::string> hosts, messages(texts.size());
  for (std::size_t rank = 0; rank < texts.size(); ++rank) hosts.push_back(cat("host", (rank + 1) / 2));
  test::run_ranks(RankGrid({.data = static_cast<int>(texts.size())}), [&](int rank, const ProcessGroups& groups) {
    messages[rank] = test::error_of(
        [&] {
          check_same(groups.world(), hosts, {{"same", "x"}, {"flags", texts[rank]}});
        },
        Exit::usage);
  });
  for (const std::string& message : messages) CHECK(message == messages[0]);
  return messages[0].substr(std::min(messages[0].find('\n'), messages[0].size()));
}

}  // namespace

TEST_CASE("agreement: ranks that differ from rank 0 are listed by what they have, with their hosts") {
  CHECK(disagreement({"a", "a"}) == "");
  CHECK(disagreement({"a\nb", "a\nc", "a", "a\nc", "a\nb\nd"}) ==
        "\n  flags: rank 2 (host1) has nothing more, but rank 0 (host0) has 'b'"
        "\n  flags: rank 4 (host2) has 'd', but rank 0 (host0) has nothing more"
        "\n  flags: ranks 1, 3 (host1, host2) have 'c', but rank 0 (host0) has 'b'");
  std::vector<std::string> texts(9, "b");
  texts[0] = "a";
  CHECK(disagreement(texts) ==
        "\n  flags: ranks 1, 2, 3, 4, 5, 6, 7, 8 (host1, host2, host3, host4) have 'b', but rank 0 (host0) has "
        "'a'");
  texts.resize(11, "b");
  CHECK(disagreement(texts) ==
        "\n  flags: ranks 1, 2, 3, 4, 5, 6, 7, 8, and 2 more (host1, host2, host3, host4) have 'b', but rank 0 "
        "(host0) has 'a'");
}

TEST_CASE("rank outcome: all ranks get all answers, or the first rank's error with its code") {
  test::run_ranks(RankGrid({.data = 3}), [&](int rank, const ProcessGroups& groups) {
    Communicator& world = groups.world();
    CHECK(work_on_every_rank(world, [&] { return cat("of ", rank); }) ==
          std::vector<std::string>{"of 0", "of 1", "of 2"});
    CHECK(work_on_first_rank(world, [&] { return cat("of ", rank); }) == "of 0");
    int calls = 0;
    work_on_first_rank(world, [&] { return cat(++calls); });
    CHECK(calls == (rank == 0 ? 1 : 0));
    const auto error_of = [](const std::function<void()>& body) {
      try {
        body();
      } catch (const AgreedError& error) {
        return cat(static_cast<int>(error.code()), " ", error.what());
      }
      return std::string("none");
    };
    const auto fail_from = [&](int first) {
      if (rank >= first) fail(rank == 1 ? Exit::io : Exit::bad_data, "fault ", rank);
      return std::string();
    };
    CHECK(error_of([&] { work_on_every_rank(world, [&] { return fail_from(1); }); }) == "74 on rank 1: fault 1");
    CHECK(error_of([&] { work_on_first_rank(world, [&] { return fail_from(0); }); }) == "65 fault 0");
    const auto throw_bug = []() -> std::string { throw std::runtime_error("surprise"); };
    CHECK(error_of([&] { work_on_every_rank(world, throw_bug); }) == "1 on rank 0: internal error: surprise");
    const std::exception_ptr own = std::make_exception_ptr(Error(Exit::usage, "own"));
    CHECK(error_of([&] { throw_first_error(world, rank == 2 ? own : nullptr); }) == "2 on rank 2: own");
    CHECK(error_of([&] { throw_first_error(world, nullptr); }) == "1 a rank failed, but no rank reported an error");
  });
  test::run_ranks(RankGrid({.data = 2}), [](int, const ProcessGroups& groups) {
    CHECK_THROWS_WITH(work_on_every_rank(groups.world(), []() -> std::string { fail(Exit::io, "of two"); }),
                      "on rank 0: of two");
  });
  SelfCommunicator self;
  CHECK_THROWS_WITH(work_on_every_rank(self, []() -> std::string { fail(Exit::io, "alone"); }), "alone");
}

TEST_CASE("operation labels: kind, number, peer, group, bytes and progress") {
  const GroupIdentity group{"pipeline", {4, 6, 9}};
  std::vector<float> data(1024);
  const Tensor tensor(data.data(), DType::f32, {1024});
  const auto text = [&](OperationKind kind, int peer, const OperationProgress& at) {
    return make_label({kind, tensor, tensor, peer}, group, 12, at).text();
  };
  CHECK(text(OperationKind::all_reduce, -1, {}) == "all-reduce #12 in group 'pipeline' (4,096 bytes)");
  CHECK(text(OperationKind::all_reduce_sums, -1, {.iteration = 0}) ==
        "all-reduce #12 in group 'pipeline' (4,096 bytes, iteration 0)");
  CHECK(text(OperationKind::all_gather, -1, {.iteration = 3, .chunk = 1}) ==
        "all-gather #12 in group 'pipeline' (4,096 bytes, iteration 3)");
  CHECK(text(OperationKind::reduce_scatter, -1, {.action = "backward", .micro_batch = 2}) ==
        "reduce-scatter #12 in group 'pipeline' (4,096 bytes, backward of micro-batch 2)");
  CHECK(
      text(OperationKind::broadcast, 1, {.iteration = 3, .action = "forward", .micro_batch = 0, .chunk = 0}) ==
      "broadcast #12 from rank 6 in group 'pipeline' (4,096 bytes, iteration 3, forward of micro-batch 0 in chunk 0)");
  CHECK(text(OperationKind::send, 2, {}) == "send #12 of activations to rank 9 in group 'pipeline' (4,096 bytes)");
  const OperationLabel label =
      make_label({OperationKind::receive, tensor, tensor, 0, Channel::gradients}, group, 0, {});
  CHECK(label.text() == "receive #0 of gradients from rank 4 in group 'pipeline' (4,096 bytes)");
  OperationLabel graph;
  graph.kind = OperationKind::graph;
  graph.number = 5;
  CHECK(graph.text() == "CUDA graph #5 with operations in group '' (a part of the step)");
  const Tensor empty(nullptr, DType::f32, {0}), meta(nullptr, DType::f32, {1});
  CHECK_NOTHROW(make_label({OperationKind::send, empty, empty, 0}, group, 0, {}));
  CHECK_THROWS(make_label({OperationKind::send, meta, meta, 0}, group, 0, {}));
}
