// The communication of data parallelism: gradients are summed over the ranks, and after the update every rank gets the
// values that the others own. One path for every way of sharing out the optimizer's state:
//
//   the sum over the replicas: a reduce-scatter when they share out the optimizer's state, else an all-reduce;
//   of the owned range, the sum over the other axes of summed_over, and over the holders of the tied table;
//   then the update of the owned range, and an all-gather over the axes that share out the state.
//
// Both ends can overlap with computing: a bucket's reduction starts when backward has finished its last unit, and its
// gathering ends when the next forward acquires its first.
#pragma once

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

  /// Before the first micro-batch of a step.
  void begin_step();
  /// Before the micro-batches of a step are computed once more: their gradients stay this rank's own.
  void begin_repetition();
  /// Waits for values that are still gathered. All memory stays, so that leases need not end.
  Lease acquire(Role role, int unit) override;
  /// Starts the reduction of buckets whose units are all ready.
  void gradients_ready(int unit) override;
  /// Gradients of the owned ranges are sums over all ranks when it returns; those outside are this rank's own still.
  void finish_reduction();
  /// Sends the owned values of a bucket round, once they are updated.
  void gather(std::size_t bucket);
  /// Every value is complete when it returns.
  void finish_gathering();

  /// The parameters whose gradient is not finite. Sums over ranks spread such a gradient: to find out where it comes
  /// from, repeat the micro-batches first.
  std::vector<std::string> nonfinite_gradients(Arena& scratch) const;

  /// Seconds spent in waiting since the last call, for reductions and for values.
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
  std::vector<Progress> progress_;  // by bucket
  bool reduces_ = true;
  double waited_seconds_ = 0;
};

}  // namespace mtl
