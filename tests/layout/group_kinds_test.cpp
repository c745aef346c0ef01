// Group kinds: purposes aside, which groups cross nodes, are idle, or repeat an earlier kind.
#include "layout/group_kinds.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/str.h"

using namespace mtl;

namespace {

const GroupKind& find_kind(const std::vector<GroupKind>& kinds, const std::string& name) {
  auto found = std::find_if(kinds.begin(), kinds.end(), [&](const GroupKind& kind) { return kind.name == name; });
  REQUIRE(found != kinds.end());
  return *found;
}

std::string names(const std::vector<GroupKind>& kinds) {
  std::vector<std::string> out;
  for (const GroupKind& kind : kinds) out.push_back(kind.name);
  return join(out, " ");
}

}  // namespace

TEST_CASE("group kinds: counts the groups that cross nodes") {
  Layout layout{.grid = RankGrid({.tensor = 2, .data = 2, .pipeline = 2})};
  std::vector<GroupKind> kinds = group_kinds(layout, 3);  // nodes of ranks 0-2, 3-5 and 6-7
  CHECK(find_kind(kinds, "tp").groups == std::vector<std::vector<int>>{{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  CHECK(find_kind(kinds, "tp").crossing == 1);
  CHECK(find_kind(kinds, "dp").crossing == 3);  // 0-2 is within a node
  CHECK(find_kind(kinds, "pp").crossing == 4);
  CHECK(find_kind(group_kinds(layout, 8), "pp").crossing == 0);
  CHECK(names(shown_kinds(kinds)) == "tp pp dp embedding tp-pp tp-dp");
  CHECK(idle_kinds(kinds) == std::vector<std::string>{"cp", "position_embedding"});
  CHECK(find_kind(kinds, "tp-cp").repeats);
}

TEST_CASE("group kinds: the first stage of a V uses one embedding table twice, and no other stage has a copy") {
  Layout layout{.grid = RankGrid({.pipeline = 4})};
  CHECK(find_kind(group_kinds(layout, 8), "embedding").groups == std::vector<std::vector<int>>{{0, 3}});
  layout.schedule = ScheduleKind::zero_bubble_v;
  layout.chunks = 2;
  CHECK(find_kind(group_kinds(layout, 8), "embedding").groups == std::vector<std::vector<int>>{{0}});
}

TEST_CASE("group kinds: traffic follows sequence parallelism and sharded optimizers; experts have kinds of their own") {
  Layout layout{.grid = RankGrid({.tensor = 2, .data = 4})};
  CHECK(find_kind(group_kinds(layout, 8), "tp").traffic.find("all-reduced") != std::string::npos);
  CHECK(find_kind(group_kinds(layout, 8), "dp").traffic.find("reduce-scattered") == std::string::npos);
  layout.sequence_parallel = true;
  layout.zero = 1;
  layout.expert_grid = RankGrid({.tensor = 2, .expert = 2, .data = 2}, "tp-ep-dp-pp");
  const std::vector<GroupKind> kinds = group_kinds(layout, 8);
  CHECK(find_kind(kinds, "tp").traffic.find("reduce-scattered") != std::string::npos);
  CHECK(find_kind(kinds, "dp").traffic.find("reduce-scattered") != std::string::npos);
  CHECK(find_kind(kinds, "ep").groups == std::vector<std::vector<int>>{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
  CHECK(names(shown_kinds(kinds)) == "tp dp ep expert-dp tp-ep tp-pp tp-dp");
}
