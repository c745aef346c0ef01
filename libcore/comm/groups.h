// A rank's communication groups. A group is identified by the rank grid axes it spans.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "layout/layout.h"

namespace mtl {

class MpiSession;

/// Creates a group from ranks of the job.
using MakeGroup = std::function<std::shared_ptr<Communicator>(const std::vector<int>& ranks, const std::string& name)>;

/// What a rank sends to one of its groups.
struct GroupTraffic {
  std::string group;  // as in messages: "tensor"
  Traffic sent;
  bool operator==(const GroupTraffic&) const = default;
};

class ProcessGroups {
 public:
  /// For a single process: every group has one member.
  ProcessGroups();
  /// Calls make() for every group that layout.rank belongs to. All ranks create their groups in the same order.
  ProcessGroups(const Layout& layout, const MakeGroup& make);

  /// Returns the control group, which contains all ranks and uses host memory. Ranks use it to exchange text and
  /// totals, and to agree on commits. A failed rank does not interrupt waits in this group.
  Communicator& world() const { return *world_; }
  /// Returns the group of all ranks whose grid coordinates differ from this rank's only along `axes`. Axes of size 1 do
  /// not matter. There are groups for tensor, pipeline, context, and data with context. Throws Error for other
  /// combinations.
  Communicator& over(AxisSet axes) const;
  /// Returns the group of ranks that hold a copy of the tied embedding, on the first and the last stage. If this rank
  /// is on neither, or on a V, whose first stage has both ends of the model, the group contains only this rank.
  Communicator& tied() const { return *tied_; }
  /// Returns false if operations in any group have been aborted. See Communicator::is_intact().
  bool is_intact() const;
  /// Returns all groups with at least two ranks.
  std::vector<Communicator*> all() const;
  /// Returns what this rank has sent to each group but the control group since the last call, as
  /// Communicator::take_traffic(). Includes groups of one rank, but not a group with the ranks of an earlier one.
  std::vector<GroupTraffic> take_traffic() const;

 private:
  AxisSet split_axes_;                                         // axes with more than one rank
  std::array<std::shared_ptr<Communicator>, kAxisSets> over_;  // by AxisSet::index(); over_[0] is a group of one
  std::shared_ptr<Communicator> world_, tied_;
};

/// Creates this rank's groups. Collective over all ranks in the session. The control group communicates over host
/// memory, all other groups over memory on `device`. On GPUs, ranks can send messages only on the paths that the layout
/// needs: between a pipeline's stages, and around a ring of context-parallel ranks. Throws Error(usage) if the grid
/// size differs from the session's world size.
ProcessGroups make_groups(MpiSession& session, const Layout& layout, Device device = Device::cpu);
/// Returns groups for planning. Those with at least two ranks are MetaCommunicators.
ProcessGroups meta_groups(const Layout& layout);

}  // namespace mtl
