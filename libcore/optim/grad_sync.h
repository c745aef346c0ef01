// The communication of data parallelism. Each bucket takes the same path, whether or not the optimizer's state is
// sharded:
//
//   1. sum over the replicas: a reduce-scatter if the replicas shard the state, otherwise an all-reduce;
//   2. sum of the owned range over the other axes of summed_over, and over the holders of the tied embedding;
//   3. update of the owned range (the optimizer's);
//   4. all-gather of the values over the axes that shard the state.
//
// Both ends can overlap with computation: a bucket's reduction starts when backward has finished its last unit, and its
// all-gather is waited for when the next forward acquires its first unit.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/groups.h"
#include "optim/param_store.h"

namespace mtl {

class GradSync final : public ParamOwner {
 public:
  struct Overlap {
    bool reduce = false;  // with backward
    bool gather = false;  // with the next forward
  };

  GradSync(ParamStore& params, Stream& stream, const ProcessGroups& groups, Overlap overlap);

  /// Call before the first micro-batch of a step.
  void begin_step();
  /// Call before recomputing the micro-batches of a step, without summing their gradients over ranks.
  void begin_repetition();
  /// Waits until the unit's values have been gathered. Memory is always resident, so the lease is empty.
  Lease acquire(Role role, int unit) override;
  /// With Overlap::reduce, starts the reduction of buckets whose units are all ready.
  void gradients_ready(int unit) override;
  /// True if a micro-batch must not be captured. The first: if it waits for gathers that the previous update started.
  /// The last: if it starts reductions and there are several pipeline stages, because a captured part would wait for
  /// its reductions before the previous stage gets its gradient; and in a repetition, which reduces nothing.
  bool overlaps(bool is_first, bool is_last) const;
  /// Makes the stream wait for the reductions that gradients_ready() started, and returns their buckets: a captured
  /// part of a step must also contain the end of every operation that it starts.
  std::vector<std::size_t> join_reductions();
  /// Call after launching a captured part, with the buckets that join_reductions() returned in its capture.
  void mark_reduced(const std::vector<std::size_t>& buckets);
  /// Finishes the sums of all gradients. Afterwards, in stream order, owned ranges hold gradients summed over all
  /// ranks; other elements hold this rank's own gradients. Throws if a gradient was not written in this step.
  void finish_reduction();
  /// Starts the all-gather of a bucket's values: each owned range, from its owner to all ranks.
  void gather(std::size_t bucket);
  /// Waits for all gathers of values.
  void finish_gathering();

  /// Names the parameters whose gradient is not finite on this rank. Sums over ranks spread such a gradient: to find
  /// the rank of origin, recompute the micro-batches first.
  std::vector<std::string> nonfinite_gradients(Arena& scratch) const;

  /// Seconds that this rank's host has waited for reductions and gathers since the last call; near 0 on cuda, where the
  /// stream waits.
  double take_waited_seconds() { return std::exchange(waited_seconds_, 0); }

 private:
  void start_reduction(std::size_t bucket);
  void wait(const Work& work);

  ParamStore& params_;
  Stream& stream_;
  const ProcessGroups& groups_;
  Overlap overlap_;
  struct Progress {
    int missing = 0;  // units whose gradients are not final
    bool started = false;
    Work reduction, gathering;
  };
  std::vector<Progress> progress_;                 // by bucket
  std::vector<std::shared_ptr<void>> registered_;  // registrations of gradients and values with the groups
  bool reduces_ = true;
  double waited_seconds_ = 0;
};

}  // namespace mtl
