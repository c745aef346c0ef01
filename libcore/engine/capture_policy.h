// Decides which parts of a step can be captured in CUDA graphs. A captured part must contain the beginning and the end
// of every communication in it.
#pragma once

#include "comm/groups.h"
#include "optim/param_traffic.h"

namespace mtl {

class CapturePolicy {
 public:
  /// The caller must keep the arguments alive.
  CapturePolicy(const ParamTraffic& traffic, const ProcessGroups& groups) : traffic_(traffic), groups_(groups) {}

  /// False for a step's first micro-batch if it waits for gathers that the previous update started. With
  /// Overlap::reduce, also false for the last micro-batch in two cases:
  /// - With multiple pipeline stages, because a captured part would wait for its reductions before the previous stage
  ///   gets its gradient.
  /// - In a repetition, which does not reduce anything.
  /// If every micro-batch reduces gradients, always false in a repetition.
  bool captures_micro_batch(bool is_first, bool is_last) const {
    return (!is_first || captures_first()) && (!is_last || captures_last()) &&
           (traffic_.reduces() || !traffic_.reduces_each_micro_batch());
  }
  /// False if micro-batches that are not captured begin or end its communication.
  bool captures_update() const { return captures_first() && captures_last(); }

 private:
  bool captures_first() const { return !traffic_.overlap().gather || groups_.over(traffic_.owners()).size() == 1; }
  bool captures_last() const {
    return !traffic_.overlap().reduce || groups_.over(kReplicaAxes).size() == 1 ||
           (traffic_.reduces() && groups_.over(Axis::pipeline).size() == 1);
  }

  const ParamTraffic& traffic_;
  const ProcessGroups& groups_;
};

}  // namespace mtl
