// The groups of ranks that a rank belongs to, by the axes of the grid that they extend over.
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

/// Makes the group of these ranks of the job.
using MakeGroup = std::function<std::shared_ptr<Communicator>(const std::vector<int>& ranks, const std::string& name)>;

class ProcessGroups {
 public:
  /// One process: every group has one member.
  ProcessGroups();
  /// Of one rank of a grid. All ranks make theirs in the same order.
  ProcessGroups(const RankGrid& grid, int rank, const MakeGroup& make);

  /// All ranks, over host memory: texts, totals, commits. Nothing interrupts its waits.
  Communicator& world() const { return *world_; }
  /// The ranks that differ from this one in `axes` alone. Axes of one rank make no difference. There are groups over
  /// tensor, pipeline, context, and data with context.
  Communicator& over(AxisSet axes) const;
  /// The ranks that hold a copy of the tied table; a rank that holds none is alone.
  Communicator& tied() const { return *tied_; }
  /// False after operations of a group were ended without results: see Communicator.
  bool is_intact() const;
  /// Every group of at least two ranks, once.
  std::vector<const Communicator*> all() const;

 private:
  AxisSet several_;                                            // axes of more than one rank
  std::array<std::shared_ptr<Communicator>, kAxisSets> over_;  // by AxisSet::index(); the first is this rank alone
  std::shared_ptr<Communicator> world_, tied_;
};

/// Collective: all ranks of the session call. `device` has the tensors that groups move; the control group moves host
/// memory. Throws Error(usage) when the grid is not as large as the session.
ProcessGroups make_groups(MpiSession& session, const RankGrid& grid, Device device = Device::cpu);
/// The groups of a rank on paper: MetaCommunicators.
ProcessGroups meta_groups(const RankGrid& grid, int rank);

}  // namespace mtl
