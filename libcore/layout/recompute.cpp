#include "layout/recompute.h"

#include <algorithm>

#include "base/error.h"

namespace mtl {

std::vector<LayerGroup> recompute_groups(const Recompute& recompute, std::int64_t layers) {
  require(recompute.num_layers >= 1, "recompute: groups of ", recompute.num_layers, " layers");
  const bool is_full = recompute.granularity == Recompute::Granularity::full;
  const bool is_uniform = recompute.method == Recompute::Method::uniform;
  std::vector<LayerGroup> groups;
  for (std::int64_t first = 0; first < layers;) {
    LayerGroup group{
        .first = first, .count = 1, .is_recomputed = is_full && (is_uniform || first < recompute.num_layers)};
    if (group.is_recomputed && is_uniform) group.count = std::min(recompute.num_layers, layers - first);
    groups.push_back(group);
    first += group.count;
  }
  return groups;
}

}  // namespace mtl
