// The groups of one rank of a grid.
#pragma once
#include "comm/communicator.h"
#include "layout/ranks.h"
namespace mtl {
ProcessGroups meta_groups(const RankGrid& grid, int rank, bool shard_optimizer);
}
