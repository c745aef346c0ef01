// Data-parallel communication. Every bucket goes through the same four operations, whatever the replicas shard:
//
//   1. Sum gradients over the replicas: with a reduce-scatter if the replicas shard the optimizer state, otherwise with
//      an all-reduce.
//   2. Sum the owned gradients over ranks with terms of them (Ownership::partial). For a tied embedding, also sum over
//      all ranks that hold a copy, or, if this rank has the gradients of both uses (Bucket::added_to), add them.
//   3. The optimizer updates the owned range.
//   4. All-gather the values over the axes that shard the optimizer state.
//
// If gradients are sharded, buckets in the ring (param_memory.h) are reduced after every micro-batch. The sum of a
// step's first goes to the owned gradients; later ones are added to them when the buffer is needed again, or when a
// captured part ends.
//
// If values are sharded, too, buckets are gathered for leases instead of after the update. While a unit computes, the
// values of the next one are gathered to another buffer. They stay there after the lease, until another group takes the
// buffer or the values change.
//
// Operations 1 and 4 can overlap with computation. A bucket's reduction starts when backward has finished all of its
// units. The next forward waits for a bucket's all-gather when it acquires the bucket's first unit.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comm/groups.h"
#include "optim/param_memory.h"

namespace mtl {

class ParamTraffic final : public ParamOwner {
 public:
  struct Overlap {
    bool reduce = false;  // overlap reductions with backward
    bool gather = false;  // overlap all-gathers with the next forward
  };

  ParamTraffic(ParamMemory& params, Stream& stream, const ProcessGroups& groups, Overlap overlap);

  /// From now on, the digest of this rank's gradients is added to `sum`, (1) i64, before they are summed over ranks.
  void digest_gradients(const Tensor& sum) { digest_ = sum; }
  /// Must be called before the first micro-batch of a step.
  void begin_step();
  /// Must be called before a step's micro-batches are recomputed. Their gradients are then not summed over ranks. Those
  /// in the ring are searched for non-finite numbers, with a little of `scratch`.
  void begin_repetition(Arena& scratch);
  /// Waits until the values of `unit` have been gathered, or until its buffer for gradients is free. Starts to gather
  /// the values of `next` if they are sharded. All leases but those of sharded values are empty, because nothing is
  /// released when they end.
  Lease acquire(Role role, int unit, std::optional<int> next) override;
  /// Starts reducing every bucket whose units are now all complete: with Overlap::reduce, after the last micro-batch,
  /// and buckets in the ring after each.
  void gradients_done(int unit, bool is_last) override;
  /// What the host knows between two parts of a step, when nothing is in flight.
  struct PartState {
    std::vector<std::size_t> reduced;                  // buckets with a reduction in this step
    std::vector<std::optional<std::size_t>> gathered;  // by buffer for sharded values: the group that is in it
  };
  /// Makes the stream wait for all reductions and gathers in flight. Captured parts of a step need this before and at
  /// their end, because they must contain the beginning and the end of every operation in them.
  PartState end_part();
  /// Must be called after launching a captured part. `state` is what end_part() returned at the end of the capture.
  void restore(const PartState& state);
  /// Return whether a part of the step can be captured in a CUDA graph. captures_micro_batch() returns false for the
  /// first micro-batch if it waits for gathers that the previous update started. With Overlap::reduce, also false for
  /// the last micro-batch in two cases:
  /// - With multiple pipeline stages, because a captured part would wait for its reductions before the previous stage
  ///   gets its gradient.
  /// - In a repetition, which does not reduce anything.
  /// If every micro-batch reduces gradients, always false in a repetition. captures_update() returns false if
  /// micro-batches that are not captured begin or end its communication.
  bool captures_micro_batch(bool is_first, bool is_last) const;
  bool captures_update() const { return captures_first() && captures_last(); }
  /// Finishes all gradient sums. Afterwards, in stream order, the owned ranges hold gradients summed over all ranks.
  /// All other elements hold only this rank's gradients. Throws if any gradient was not written in this step.
  void finish_reduction();
  /// Starts to all-gather a bucket's values: each owner sends its range to all ranks that shard the optimizer state.
  void gather(std::size_t bucket);
  /// Waits until all values have been gathered.
  void finish_gathering();
  /// Must be called before the owned values change, while none are leased: discards gathered values.
  void forget_values();

  /// Returns the names of all parameters with non-finite gradients on this rank. Summing spreads such gradients to all
  /// ranks. To find the rank where they first occurred, recompute the micro-batches before this call (see
  /// begin_repetition()).
  std::vector<std::string> nonfinite_gradients(Arena& scratch) const;

  /// Returns how many seconds this rank's host thread has waited for reductions and gathers since the last call. Near 0
  /// on cuda, where the stream waits instead of the host.
  double take_waited_seconds() { return std::exchange(waited_seconds_, 0); }

 private:
  void release(Role role, int unit) noexcept override;
  bool reduces() const { return repetition_ == nullptr; }
  bool captures_first() const;
  bool captures_last() const;
  /// A buffer for sharded values.
  struct ValueBuffer {
    std::optional<std::size_t> group = {};  // whose values are in it or being gathered
    int leases = 0;
  };
  ValueBuffer* buffer_of(std::size_t group);
  bool fetch(std::size_t group);
  void forget(ValueBuffer& buffer);
  void take_digest(const Bucket& bucket);
  void start_reduction(std::size_t bucket);
  void take_buffer(std::size_t bucket);
  void start_ring_reduction(std::size_t bucket);
  void finish_ring_reduction(std::size_t bucket);
  void finish_rings();
  bool is_nonfinite(Arena& scratch, const Tensor& grad) const;
  void finish(Work& work);  // waits for it and lets it go
  void wait(const Work& work);

  ParamMemory& params_;
  Stream& stream_;
  const ProcessGroups& groups_;
  Overlap overlap_;
  Tensor digest_;  // if it exists
  struct Progress {
    int missing = 0;  // units whose gradients are not complete yet
    bool started = false;
    Work reduction, gathering;
    // For a bucket in the ring:
    bool holds_buffer = false;  // a micro-batch is writing to it
    bool is_reducing = false;   // its sum has not left the buffer
    bool adds = false;          // not the first sum of the step: it is added to the owned gradients
  };
  std::vector<Progress> progress_;  // by bucket
  std::vector<ValueBuffer> value_buffers_;
  std::vector<std::shared_ptr<void>> registered_;  // memory of gradients and values
  std::set<int> nonfinite_;      // in a repetition: parameters of the ring with non-finite gradients so far
  Arena* repetition_ = nullptr;  // in a repetition: the scratch to search gradients with
  double waited_seconds_ = 0;
};

}  // namespace mtl
