// The communication groups of a rank, by the axes of the grid that they span.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "layout/ranks.h"

namespace mtl {

class MpiSession;

/// Creates the group of these ranks of the job.
using MakeGroup = std::function<std::shared_ptr<Communicator>(const std::vector<int>& ranks, const std::string& name)>;

class ProcessGroups {
 public:
  /// One process: every group has one member.
  ProcessGroups();
  /// The groups of one rank of a grid. All ranks create theirs in the same order.
  ProcessGroups(const RankGrid& grid, int rank, const MakeGroup& make);

  /// The control group: all ranks, over host memory, for texts, totals and commits. A failed rank does not interrupt
  /// waits in it.
  Communicator& world() const { return *world_; }
  /// The ranks that differ from this one only in `axes`. Axes of size 1 make no difference. Groups exist over tensor,
  /// pipeline, context, and data with context; throws Error for other axes.
  Communicator& over(AxisSet axes) const;
  /// The ranks that hold a copy of the tied embedding; on other ranks, a group of one.
  Communicator& tied() const { return *tied_; }
  /// False after operations of any group were aborted; see Communicator.
  bool is_intact() const;
  /// All groups of at least two ranks, each once.
  std::vector<const Communicator*> all() const;

 private:
  AxisSet split_axes_;                                         // axes of more than one rank
  std::array<std::shared_ptr<Communicator>, kAxisSets> over_;  // by AxisSet::index(); the first is this rank alone
  std::shared_ptr<Communicator> world_, tied_;
};

/// Creates this rank's groups. Collective over the session. Groups exchange memory of `device`, the control group host
/// memory. Throws Error(usage) if the sizes of grid and session differ.
ProcessGroups make_groups(MpiSession& session, const RankGrid& grid, Device device = Device::cpu);
/// The groups of a rank in a plan: MetaCommunicators.
ProcessGroups meta_groups(const RankGrid& grid, int rank);

}  // namespace mtl
