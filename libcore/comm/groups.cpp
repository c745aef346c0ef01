#include "comm/groups.h"

#include <algorithm>
#include <numeric>

namespace mtl {

ProcessGroups make_groups(const RankGrid& grid, int rank, bool shard_optimizer, const MakeGroup& make) {
  std::vector<int> everyone(static_cast<std::size_t>(grid.world()));
  std::iota(everyone.begin(), everyone.end(), 0);
  std::vector<int> tied = {rank};
  for (const std::vector<int>& group : grid.embedding_groups()) {
    if (std::find(group.begin(), group.end(), rank) != group.end()) tied = group;
  }
  ProcessGroups groups;
  groups.world = make(everyone, "world");
  groups.tensor = make(grid.group_of(rank, "tp"), "tensor");
  groups.pipeline = make(grid.group_of(rank, "pp"), "pipeline");
  groups.data = make(grid.group_of(rank, "dp-cp"), "data");
  groups.context = make(grid.group_of(rank, "cp"), "context");
  groups.embedding = make(tied, "embedding");
  auto alone = make({rank}, "alone");
  groups.shards = shard_optimizer ? groups.data : alone;
  groups.replicas = shard_optimizer ? alone : groups.data;
  return groups;
}

ProcessGroups meta_groups(const RankGrid& grid, int rank, bool shard_optimizer) {
  return make_groups(grid, rank, shard_optimizer, [rank](const std::vector<int>& ranks, const std::string&) {
    auto place = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
    return std::make_shared<MetaCommunicator>(static_cast<int>(place), static_cast<int>(ranks.size()));
  });
}

}  // namespace mtl
