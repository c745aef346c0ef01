// Ranks and groups, compared with Megatron-LM's.
#include "layout/ranks.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/str.h"
#include "tests/golden_lines.h"

using namespace mtl;

namespace {

std::vector<std::vector<int>> lists(const Json& json) {
  std::vector<std::vector<int>> out;
  for (const Json& list : json.as_array()) {
    std::vector<int> ranks;
    for (const Json& rank : list.as_array()) ranks.push_back(static_cast<int>(rank.as_int()));
    out.push_back(ranks);
  }
  return out;
}

/// Parses axis names: "dp-cp" gives {data, context}.
AxisSet parse_axes(const std::string& names) {
  AxisSet axes;
  for (const std::string& name : split(names, '-')) {
    for (Axis axis : kAllAxes) {
      if (name == short_name(axis)) axes = axes | axis;
    }
  }
  return axes;
}

}  // namespace

TEST_CASE("groups equal Megatron's, in its order") {
  int layouts = 0;
  for (const Json& json : golden_lines("golden/ranks/groups.jsonl")) {
    const Json& args = json.at("args");
    auto size = [&](const char* key) { return static_cast<int>(args.at(key).as_int()); };
    std::string order = args.at("order").as_string();
    CAPTURE(args.dump());
    RankGrid grid(
        {.tensor = size("tp"), .context = size("cp"), .expert = size("ep"), .data = size("dp"), .pipeline = size("pp")},
        order);
    CHECK(grid.world() == size("world"));
    for (const auto& [token, groups] : json.at("groups").as_object()) {
      CAPTURE(token);
      CHECK(grid.groups(parse_axes(token)) == lists(groups));
    }
    CHECK(grid.embedding_groups() == lists(json.at("embedding")));
    for (int rank = 0; rank < grid.world(); ++rank) {
      std::vector<int> tied = grid.embedding_group_of(rank);
      CHECK(std::count(tied.begin(), tied.end(), rank) == 1);
      auto all = grid.embedding_groups();
      if (tied.size() > 1) CHECK(std::count(all.begin(), all.end(), tied) == 1);
      int stage = grid.coordinate(rank, Axis::pipeline), stages = grid.size(Axis::pipeline);
      CHECK(tied.size() == (stages > 1 && (stage == 0 || stage + 1 == stages) ? 2 : 1));
      for (const auto& [token, groups] : json.at("groups").as_object()) {
        std::vector<int> group = grid.group_of(rank, parse_axes(token));
        CHECK(group[static_cast<std::size_t>(grid.index_in_group(rank, parse_axes(token)))] == rank);
        CHECK(std::is_sorted(group.begin(), group.end()));
        CHECK(static_cast<int>(group.size()) == grid.size(parse_axes(token)));
      }
    }
    CHECK(grid.position_embedding_groups() == lists(json.at("position_embedding")));
    ++layouts;
  }
  CHECK(layouts == 38);
}

TEST_CASE("coordinates and ranks are inverse to each other") {
  for (const char* order : {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "pp-dp-ep-cp-tp"}) {
    RankGrid grid({.tensor = 2, .expert = 3, .data = 2, .pipeline = 4}, order);
    for (int rank = 0; rank < grid.world(); ++rank) {
      CHECK(grid.rank_at({.tensor = grid.coordinate(rank, Axis::tensor),
                          .context = grid.coordinate(rank, Axis::context),
                          .expert = grid.coordinate(rank, Axis::expert),
                          .data = grid.coordinate(rank, Axis::data),
                          .pipeline = grid.coordinate(rank, Axis::pipeline)}) == rank);
    }
  }
}

TEST_CASE("invalid orders and sizes are refused") {
  for (const char* order : {"tp-cp-ep-dp", "tp-cp-ep-dp-dp", "tp-xp-ep-dp-pp", "", "tp-cp-ep-dp-pp-tp"})
    CHECK_THROWS_AS(RankGrid({.tensor = 2, .pipeline = 2}, order), Error);
  CHECK_THROWS_AS(RankGrid({.tensor = 0}), Error);
  CHECK_NOTHROW(RankGrid({.tensor = 2, .pipeline = 2}, "tp-dp-pp"));
}
