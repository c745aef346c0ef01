#include "planner/links.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <tuple>

#include "base/error.h"
#include "layout/ownership.h"

namespace mtl {

namespace {

AxisSet axes_named(const std::string& name) {
  const auto* const found = std::ranges::find(kGroups, name, &GroupAxes::name);
  require(found != std::end(kGroups), "no group is called '", name, "'");
  return found->axes;
}

GroupPlace place_of(const std::vector<int>& ranks, int node_size) {
  std::map<int, int> on_node;
  for (int rank : ranks) ++on_node[rank / node_size];
  const auto fewest = std::ranges::min_element(on_node, {}, [](const auto& node) { return node.second; });
  return {
      .size = static_cast<int>(ranks.size()), .nodes = static_cast<int>(on_node.size()), .per_node = fewest->second};
}

}  // namespace

GroupPlace place_of_group(const Layout& layout, const std::string& name, int node_size) {
  const std::vector<std::vector<int>> groups =
      name == kEmbeddingGroup ? layout.grid.embedding_groups() : layout.grid.groups(axes_named(name));
  const auto places = std::views::transform(groups, [&](const auto& ranks) { return place_of(ranks, node_size); });
  // The slowest crosses nodes, with few links at a time, and then many nodes.
  return std::ranges::min(places, {}, [](const GroupPlace& place) {
    return std::tuple(!place.crosses_nodes(), place.per_node, -place.nodes);
  });
}

double operation_ms(OperationKind kind, double bytes, const GroupPlace& place, const Links& links) {
  if (place.size < 2) return 0;
  if (kind == OperationKind::send || kind == OperationKind::receive)
    return message_ms(bytes, place.crosses_nodes(), links);
  const double gbs =
      place.crosses_nodes() ? std::min(links.inside_gbs, links.between_gbs * place.per_node) : links.inside_gbs;
  const int between = place.crosses_nodes() ? place.nodes - 1 : 0, inside = place.size - 1 - between;
  const double around_us = between * links.between_us + inside * links.inside_us;
  return bytes / (gbs * 1e6) + (kind == OperationKind::all_reduce ? 2 : 1) * around_us * 1e-3;
}

double message_ms(double bytes, bool crosses_nodes, const Links& links) {
  return crosses_nodes ? bytes / (links.between_gbs * 1e6) + links.between_us * 1e-3
                       : bytes / (links.inside_gbs * 1e6) + links.inside_us * 1e-3;
}

}  // namespace mtl
