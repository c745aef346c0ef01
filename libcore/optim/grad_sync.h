// The communication of data parallelism. Every bucket goes through the same four operations, whether or not the
// optimizer state is sharded:
//
//   1. Gradients are summed over the replicas: with a reduce-scatter if the replicas shard the optimizer state,
//      otherwise with an all-reduce.
//   2. The owned range of the gradients is summed over the other axes of summed_over and, for a tied embedding, over
//      all ranks that hold a copy of the embedding.
//   3. The optimizer updates the owned range.
//   4. The values are all-gathered over the axes that shard the optimizer state.
//
// The first and the last operation can overlap with computation. The reduction of a bucket starts when backward has
// finished all units of the bucket. The next forward waits for the all-gather of a bucket when it acquires the first
// unit of the bucket.
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
    bool reduce = false;  // overlap reductions with backward
    bool gather = false;  // overlap all-gathers with the next forward
  };

  GradSync(ParamStore& params, Stream& stream, const ProcessGroups& groups, Overlap overlap);

  /// Call before the first micro-batch of a step.
  void begin_step();
  /// Call before the micro-batches of a step are recomputed. The gradients of this repetition are not summed over
  /// ranks.
  void begin_repetition();
  /// Waits until the values of `unit` have been gathered. Returns an empty lease, because all parameters are always
  /// resident.
  Lease acquire(Role role, int unit) override;
  /// Call when the gradients of `unit` are complete. With Overlap::reduce, starts the reduction of every bucket whose
  /// units are now all complete.
  void gradients_ready(int unit) override;
  /// Returns true if a micro-batch must not be captured. The first micro-batch must not be captured if it waits for
  /// gathers that the previous update started. With Overlap::reduce, the last micro-batch must not be captured in two
  /// cases: if there are several pipeline stages, because a captured part would wait for its reductions before the
  /// previous stage gets its gradient; and in a repetition, which reduces nothing.
  bool overlaps(bool is_first, bool is_last) const;
  /// Makes the stream wait for the reductions that gradients_ready() started, and returns the buckets of these
  /// reductions. A captured part of a step needs this call, because it must contain the end of every operation that it
  /// starts.
  std::vector<std::size_t> join_reductions();
  /// Call after launching a captured part. `buckets` are those that join_reductions() returned when the part was
  /// captured.
  void mark_reduced(const std::vector<std::size_t>& buckets);
  /// Finishes the sums of all gradients. Afterwards, in stream order, the owned ranges hold gradients that are summed
  /// over all ranks; all other elements hold the gradients of this rank alone. Throws if a gradient was not written in
  /// this step.
  void finish_reduction();
  /// Starts the all-gather of a bucket's values: each owned range is sent from its owner to all ranks that shard the
  /// optimizer state.
  void gather(std::size_t bucket);
  /// Waits until all gathers of values are complete.
  void finish_gathering();

  /// Returns the names of all parameters whose gradient is not finite on this rank. Summing over ranks spreads
  /// non-finite gradients to all ranks. To find the rank on which a non-finite gradient first occurred, recompute the
  /// micro-batches before this call (see begin_repetition()).
  std::vector<std::string> nonfinite_gradients(Arena& scratch) const;

  /// Returns the time, in seconds, for which this rank's host thread has waited for reductions and gathers since the
  /// last call. The result is near 0 on cuda, where the stream waits instead of the host.
  double take_waited_seconds() { return std::exchange(waited_seconds_, 0); }

 private:
  void start_reduction(std::size_t bucket);
  void wait(const Work& work);

  ParamStore& params_;
  Stream& stream_;
  const ProcessGroups& groups_;
  Overlap overlap_;
  struct Progress {
    int missing = 0;  // number of units whose gradients are not complete
    bool started = false;
    Work reduction, gathering;
  };
  std::vector<Progress> progress_;                 // by bucket
  std::vector<std::shared_ptr<void>> registered_;  // registrations of gradients and values with the groups
  bool reduces_ = true;
  double waited_seconds_ = 0;
};

}  // namespace mtl
