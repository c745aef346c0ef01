// What a step that failed in two sessions tells about their machines.
#include "train/failed_step.h"

#include <doctest/doctest.h>

#include "tests/error_of.h"

namespace mtl {

namespace {

std::vector<RankResult> on_hosts(const std::vector<std::string>& hosts) {
  std::vector<RankResult> ranks;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    ranks.push_back({hosts[rank], "cpu", 7, 100 + std::int64_t(rank), -5});
  return ranks;
}

const FailedStep kBefore{7, "the loss is not finite", on_hosts({"a", "b"})};

}  // namespace

TEST_CASE("another session's result tells which machines compute wrong") {
  struct Case {
    const char* name;
    std::vector<std::string> hosts;
    std::int64_t error;    // in rank 1's gradients
    const char* platform;  // of rank 1
    const char* failure;
    Exit exit;
    const char* text;
  };
  const Case cases[] = {
      {"on other machines, equal",
       {"c", "d"},
       0,
       "cpu",
       "x",
       Exit::corrupt,
       "fails in the same way on other machines: the result is right"},
      {"on one of the machines, equal", {"c", "b"}, 0, "cpu", "x", Exit::recheck, "but on the same machines: b;"},
      {"on the same machines, equal", {"a", "b"}, 0, "cpu", "x", Exit::recheck, "but on the same machines: a, b;"},
      {"exchanged machines, equal", {"b", "a"}, 0, "cpu", "x", Exit::corrupt, "the result is right"},
      {"rank 1 differs, and fails",
       {"c", "d"},
       1,
       "cpu",
       "x",
       Exit::corrupt,
       "other gradients of the ranks that were on b: a machine computes wrong"},
      {"rank 1 differs, and the step is fine",
       {"c", "d"},
       1,
       "cpu",
       "",
       Exit::ok,
       "with other gradients of the ranks that were on b: one of these"},
      {"another platform, and fails", {"c", "d"}, 1, "gpu", "x", Exit::corrupt, "or another kind of machine, too"},
      {"another platform, and is fine", {"c", "d"}, 1, "gpu", "", Exit::ok, "one of a, b computes wrong, unless"},
      {"more ranks, and fails", {"c", "d", "e"}, 0, "cpu", "x", Exit::corrupt, "on another number of ranks"},
      {"more ranks, one on a machine", {"c", "d", "a"}, 0, "cpu", "x", Exit::recheck, "but on the same machines: a;"},
      {"another platform of a machine", {"b", "d"}, 0, "gpu", "x", Exit::recheck, "but on the same machines: b;"},
      {"fewer ranks, and is fine", {"c"}, 0, "cpu", "", Exit::ok, "one of a, b computes wrong, unless"},
      {"the flags changed", {"a", "b"}, 0, "cpu", "", Exit::ok, "has the same gradients now"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    std::vector<RankResult> now = on_hosts(c.hosts);
    if (now.size() > 1) {
      now[1].gradients += c.error;
      now[1].platform = c.platform;
    }
    const FailedStep::Conclusion conclusion = kBefore.conclude(now, c.failure);
    CHECK(conclusion.exit == c.exit);
    CHECK_MESSAGE(conclusion.text.find(c.text) != std::string::npos, conclusion.text);
    CHECK(conclusion.text.find("failed before (the loss is not finite)") == 0);
  }
}

TEST_CASE("another session's step is the same if all ranks begin it with the same state, as far as that can be seen") {
  std::vector<RankResult> now = on_hosts({"c", "d"});
  CHECK(kBefore.is_same_step(now));
  now[1].state = 8;
  CHECK(!kBefore.is_same_step(now));
  now.pop_back();
  CHECK(kBefore.is_same_step(now));
}

TEST_CASE("two runs of a step: ranks with other gradients, or with other sums only") {
  const std::vector<RankResult> first = on_hosts({"a", "b", "c"});
  CHECK(describe_differences(first, first) == "");
  std::vector<RankResult> second = first;
  second[0].sums = 4;
  second[2].gradients = second[2].sums = 4;
  CHECK(describe_differences(first, second) == "rank 0 (a): other sums of gradients, rank 2 (c): other gradients");
}

TEST_CASE("a failed step is written and read") {
  const FailedStep read = FailedStep::from_text(kBefore.to_text(), "f");
  CHECK(read.to_text() == kBefore.to_text());
  CHECK(read.iteration == 7);
  CHECK(describe_differences(read.ranks, kBefore.ranks) == "");
  for (const char* text : {"", "{", "[]", "{\"iteration\": 1}", "{\"iteration\": 1, \"failure\": 2, \"ranks\": []}",
                           "{\"iteration\": 1, \"failure\": \"\", \"ranks\": [{}]}",
                           "{\"iteration\": 1, \"failure\": \"\", \"ranks\": []}"}) {
    const std::string error =
        test::error_of([&] { FailedStep::from_text(text, "save/failed_step.json"); }, Exit::bad_data);
    CHECK_MESSAGE(error.find("save/failed_step.json: ") == 0, error);
    CHECK_MESSAGE(error.find("remove the file") != std::string::npos, error);
  }
}

}  // namespace mtl
