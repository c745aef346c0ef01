// The communication groups of a rank. Each group is identified by the axes of the rank grid that it spans.
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

/// A function that creates the group of the given ranks of the job.
using MakeGroup = std::function<std::shared_ptr<Communicator>(const std::vector<int>& ranks, const std::string& name)>;

class ProcessGroups {
 public:
  /// The groups of a single process: every group has one member.
  ProcessGroups();
  /// Creates the groups of rank `rank` of `grid` by calls of make(). All ranks create their groups in the same order.
  ProcessGroups(const RankGrid& grid, int rank, const MakeGroup& make);

  /// Returns the control group, which contains all ranks and uses host memory. The ranks use this group to exchange
  /// texts and totals, and to agree on commits. A failed rank does not interrupt waits in the control group.
  Communicator& world() const { return *world_; }
  /// Returns the group of all ranks whose grid coordinates differ from this rank's coordinates only in `axes`. Axes of
  /// size 1 in `axes` are ignored. Groups exist for tensor, for pipeline, for context, and for data together with
  /// context. Throws Error for other combinations of axes.
  Communicator& over(AxisSet axes) const;
  /// Returns the group of all ranks that hold a copy of the tied embedding. On all other ranks, returns a group of one.
  Communicator& tied() const { return *tied_; }
  /// Returns false after operations of at least one group were aborted; see Communicator::is_intact().
  bool is_intact() const;
  /// Returns all groups of at least two ranks.
  std::vector<const Communicator*> all() const;

 private:
  AxisSet split_axes_;                                         // axes with more than one rank
  std::array<std::shared_ptr<Communicator>, kAxisSets> over_;  // by AxisSet::index(); over_[0] is a group of one
  std::shared_ptr<Communicator> world_, tied_;
};

/// Creates this rank's groups. Collective over all ranks of the session. The control group communicates over host
/// memory, all other groups over memory of `device`. Throws Error(usage) if grid and session differ in their number of
/// ranks.
ProcessGroups make_groups(MpiSession& session, const RankGrid& grid, Device device = Device::cpu);
/// Returns the groups of a rank for a plan. Groups of at least two ranks are MetaCommunicators.
ProcessGroups meta_groups(const RankGrid& grid, int rank);

}  // namespace mtl
