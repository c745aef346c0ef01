// The end of a step: sums gradients over ranks, computes the gradient norm and the clip factor, updates the owned
// ranges, and gathers the values.
#pragma once

#include <functional>
#include <memory>

#include "comm/groups.h"
#include "device/memory.h"
#include "optim/param_traffic.h"
#include "optim/state_ring.h"

namespace mtl {

class Optimizer {
 public:
  struct Options {
    double clip_grad = 1.0;  // maximum global gradient norm; 0: no clipping
    ParamTraffic::Overlap overlap;
    std::uint32_t seed = 0;     // for stochastic rounding
    bool counts_zeros = false;  // of the gradients, in every step
    bool takes_digests = false;
  };

  Optimizer(ParamMemory& params, Options options, Stream& stream, const ProcessGroups& groups);

  void set_factors(StepInputs& inputs) const { params_.rules().set_factors(inputs); }
  /// Must be called before the first micro-batch of a step.
  void begin_step() { traffic_.begin_step(); }
  /// Layers lease parameters from this ParamOwner.
  ParamTraffic& traffic() { return traffic_; }
  const ParamTraffic& traffic() const { return traffic_; }
  /// Must be called after the last backward of a step. Sums gradients over ranks. Sets grad_norm, clip_scale and
  /// found_inf in `state`, which is in device memory, and zero_gradients and the sums' digest if the options say so.
  void reduce(Arena& scratch, StepState* state);
  /// Updates all owned ranges unless found_inf is set, and sets the digests before and after that. With
  /// Overlap::gather, values may still be being gathered when this returns; see ParamTraffic.
  void update(Arena& scratch, StepState* state);
  /// reduce() and update().
  void step(Arena& scratch, StepState* state) {
    reduce(scratch, state);
    update(scratch, state);
  }
  /// Sets params_squares in `state`: the squares of the weights as they are now. Each element of the model is summed on
  /// one rank. The weights that the optimizer updates must be on the device. Needs no more scratch than step().
  void sum_params(Arena& scratch, StepState* state);
  /// Sets `sum`, in device memory, to the digest of the owned weights and states that are on the device.
  void digest_state(std::int64_t* sum);
  /// Must be called before launching a captured update(). A direct one calls it itself. Values that were gathered for
  /// the micro-batches are discarded.
  void begin_update() {
    update_begun_ = true;
    traffic_.forget_values();
  }
  /// True from begin_update() to end_step(). During this time, this rank may have updated weights that other ranks have
  /// not updated yet.
  bool update_begun() const { return update_begun_; }
  /// The ring of states that are in host memory or in files, or null if all states are on the device.
  const StateRing* ring() const { return ring_.get(); }
  /// Must be called once we know that all ranks have completed the update.
  void end_step() { update_begun_ = false; }

 private:
  const UpdateRule& rule_of(const Bucket& bucket) const { return *params_.rules().rules[bucket.key.traits.rule]; }
  void gradient_norm(Arena& scratch, StepState* state);
  void count_zero_gradients(StepState* state);
  std::vector<Tensor> written(std::size_t row, bool with_padding = false) const;
  std::vector<UpdateRange> ranges_of(const Bucket& bucket, bool prepares = false) const;
  void transform(std::size_t bucket, Arena& scratch);
  std::unique_ptr<StateRing> make_ring() const;
  using Operation = std::function<void(const UpdateRange&)>;
  void for_ranges(const std::vector<UpdateRange>& ranges, const Operation& operation);

  ParamMemory& params_;
  Options options_;
  Stream& stream_;
  const ProcessGroups& groups_;
  ParamTraffic traffic_;
  std::unique_ptr<StateRing> ring_;  // null if all states are on the device
  bool update_begun_ = false;
};

}  // namespace mtl
