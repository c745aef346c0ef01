#include "comm/groups.h"
#include <algorithm>
namespace mtl {
ProcessGroups meta_groups(const RankGrid& grid, int rank, bool shard_optimizer) {
  auto make = [&](std::vector<int> g) -> std::shared_ptr<Communicator> {
    int at = int(std::find(g.begin(), g.end(), rank) - g.begin());
    return std::make_shared<MetaCommunicator>(at, int(g.size()));
  };
  auto self = std::make_shared<SelfCommunicator>();
  auto data = make(grid.group_of(rank, "dp-cp"));
  std::vector<int> pp = grid.group_of(rank, "pp");
  std::vector<int> emb = {rank};
  if (pp.size() > 1 && (rank == pp.front() || rank == pp.back())) emb = {pp.front(), pp.back()};
  std::vector<int> all(std::size_t(grid.world()));
  for (int i = 0; i < grid.world(); ++i) all[std::size_t(i)] = i;
  return {make(all), make(grid.group_of(rank, "tp")), make(pp), data, make(grid.group_of(rank, "cp")), make(emb),
          shard_optimizer ? data : std::static_pointer_cast<Communicator>(self),
          shard_optimizer ? std::static_pointer_cast<Communicator>(self) : data};
}
}
