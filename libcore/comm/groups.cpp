#include "comm/groups.h"

#include <algorithm>
#include <numeric>

namespace mtl {

ProcessGroups::ProcessGroups() : world_(std::make_shared<SelfCommunicator>()), tied_(world_) { over_[0] = world_; }

ProcessGroups::ProcessGroups(const Layout& layout, const MakeGroup& make) : ProcessGroups() {
  const RankGrid& grid = layout.grid;
  for (Axis axis : kAllAxes) {
    if (grid.size(axis) > 1) split_axes_ = split_axes_ | axis;
  }
  if (split_axes_.empty()) return;
  std::vector<int> all(grid.world());
  std::iota(all.begin(), all.end(), 0);
  world_ = make(all, "world");
  for (const auto& [name, axes] : kGroups) {
    std::shared_ptr<Communicator>& group = over_[(axes & split_axes_).index()];
    if (group == nullptr) group = make(grid.group_of(layout.rank, axes), name);
  }
  if (layout.places().loss_stage() != 0) tied_ = make(grid.embedding_group_of(layout.rank), kEmbeddingGroup);
}

Communicator& ProcessGroups::over(AxisSet axes) const {
  const std::shared_ptr<Communicator>& group = over_[(axes & split_axes_).index()];
  require(group != nullptr, "there is no group of ranks over these axes");
  return *group;
}

std::vector<Communicator*> ProcessGroups::all() const {
  std::vector<Communicator*> out;
  auto add = [&](const std::shared_ptr<Communicator>& group) {
    if (group != nullptr && group->size() > 1) out.push_back(group.get());
  };
  add(world_);
  for (const std::shared_ptr<Communicator>& group : over_) add(group);
  add(tied_);
  return out;
}

bool ProcessGroups::is_intact() const {
  const auto groups = all();
  return std::all_of(groups.begin(), groups.end(), [](const Communicator* group) { return group->is_intact(); });
}

std::vector<GroupTraffic> ProcessGroups::take_traffic() const {
  std::vector<GroupTraffic> out;
  std::vector<const Communicator*> taken;
  const auto take = [&](const char* name, Communicator& group) {
    if (group.size() > 1 && std::find(taken.begin(), taken.end(), &group) != taken.end()) return;
    taken.push_back(&group);
    out.push_back({name, group.take_traffic()});
  };
  for (const auto& [name, axes] : kGroups) take(name, over(axes));
  take(kEmbeddingGroup, tied());
  return out;
}

ProcessGroups meta_groups(const Layout& layout) {
  return {layout, [&](const std::vector<int>& ranks, const std::string& name) {
            auto index = std::find(ranks.begin(), ranks.end(), layout.rank) - ranks.begin();
            return std::make_shared<MetaCommunicator>(static_cast<int>(index), static_cast<int>(ranks.size()), name);
          }};
}

}  // namespace mtl
