// The groups that each axis of a grid gives a rank.
//
//   world      everyone          tensor  tp      context  cp
//   data       dp-cp: all that hold the same weights, as their gradients are summed
//   pipeline   pp                embedding  the first and the last of the pipeline; alone for those between
//   shards, replicas   data and this rank alone when the optimizer's state is shared out, else the other way round
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "layout/ranks.h"

namespace mtl {

class MpiSession;

/// Makes the group of these ranks of the job.
using MakeGroup = std::function<std::shared_ptr<Communicator>(const std::vector<int>& ranks, const std::string& name)>;

ProcessGroups make_groups(const RankGrid& grid, int rank, bool shard_optimizer, const MakeGroup& make);
/// Collective: all ranks of the session call. Throws Error(usage) when the grid is not as large as the session.
ProcessGroups make_groups(MpiSession& session, const RankGrid& grid, bool shard_optimizer);
/// The groups of a rank on paper.
ProcessGroups meta_groups(const RankGrid& grid, int rank, bool shard_optimizer);

}  // namespace mtl
