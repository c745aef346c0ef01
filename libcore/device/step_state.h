// Values that change from step to step. They are in device memory, and operators read them through a pointer, so that a
// captured step (a CUDA graph) sees new values without a new capture. The host sends StepInputs before a step and
// receives the StepReport after it. Sample indices are in the batches instead.
#pragma once

#include <array>
#include <cstdint>

#include "device/event.h"
#include "device/memory.h"
#include "device/stream.h"

namespace mtl {

/// What an update rule multiplies by in this step. The rule says what the numbers mean.
struct UpdateFactors {
  float rate = 0, root = 0, decay = 0;
};

/// Sent from host to device once per step.
struct StepInputs {
  std::int64_t step = 0;    // this update's number, from 1 (AdamW's t); steps without an update are not counted
  double lr = 0;            // for this step
  double decoupled_lr = 0;  // that of the token tables, if they have their own
  double weight_decay = 0;  // for this step
  double loss_scale = 1;    // gradients are multiplied by it
  // The share of the step's tokens that the mask leaves, if gradients are sums over tokens that are divided by the
  // number of all tokens (RunShape::per_token_loss); otherwise 1.
  double token_share = 1;
  // Nonzero if the other values assume that the previous step makes its update. The host has not read that step's
  // report yet. If the previous step makes no update, neither does this step.
  std::int32_t assumes_update = 0;
  // Which the update rules compute from the values above, by UpdateTraits::factors() (optim/update_rule.h).
  std::array<UpdateFactors, 4> factors = {};
};

/// Digests (kernels/digest.h) of what this rank has in a step. Steps repeat bit for bit, so two runs of one have equal
/// digests unless a machine computes wrong.
struct StepDigests {
  std::int64_t gradients = 0;  // of this rank's gradients before they are summed over ranks, and of its losses
  std::int64_t sums = 0;       // of the owned gradients after that, and of grad_norm
  // Of the owned weights and optimizer states on the device, before and after the update.
  std::int64_t state_before = 0, state_after = 0;

  /// Returns true if both runs of a step computed the same.
  bool computed_same(const StepDigests& other) const { return gradients == other.gradients && sums == other.sums; }
};

/// Sent from device to host once per step.
struct StepReport {
  std::array<double, 2> loss_sums = {};  // of cross-entropy and z-loss, accumulated by sum_losses()
  double clip_scale = 1;                 // the update multiplies gradients by this factor
  double grad_norm = 0;                  // global, before clipping, divided by the loss scale
  // Nonzero if the step makes no update: either the norm is not finite, or the step assumes an update that was not
  // made.
  std::int32_t found_inf = 0;
  // These count elements that this rank updates.
  // - nonzero_updates: The update is not zero.
  // - lost_updates: The update is not zero, but the stored weight does not change.
  // - lost_copies: The main weight changes, but the copy that layers read does not.
  std::int64_t nonzero_updates = 0, lost_updates = 0, lost_copies = 0;
  // Over the elements that this rank writes: gradients that equal 0 (Optimizer::Options::counts_zeros), and the sum of
  // the squares of the weights (Optimizer::sum_params()).
  std::int64_t zero_gradients = 0;
  double params_squares = 0;
  StepDigests digests = {};  // Optimizer::Options::takes_digests
};

struct StepState : StepInputs, StepReport {
  float grad_factor = 0;  // clip_scale / (loss_scale token_share); finish_grad_norm() computes it
};

/// A run's StepState. On cuda, inputs and reports are copied through pinned memory, which does not block the host.
class StepMemory {
 public:
  /// Reports in flight, at most.
  static constexpr int kReports = 2;

  explicit StepMemory(Device device);
  static constexpr std::size_t bytes() { return sizeof(StepState); }
  /// Returns how much pinned memory is needed, in bytes.
  static std::size_t host_bytes(Device device) { return device == Device::cpu ? 0 : kReports * sizeof(StepState); }

  /// Returns the address for operators to read and write.
  StepState* on_device() const { return reinterpret_cast<StepState*>(memory_.data()); }
  /// Returns loss_sums as a (2) f64 tensor.
  Tensor loss_sums() const;
  /// Returns StepDigests::gradients as a (1) i64 tensor.
  Tensor gradients_digest() const { return {&on_device()->digests.gradients, DType::i64, {1}}; }
  /// Sends the next step's inputs. Waits only until the inputs from two steps ago have been copied.
  void send(Stream& stream, const StepInputs& inputs);
  /// Starts copying the report on all commands enqueued on the stream so far. Returns the report's number, for
  /// read_report(). At most kReports reports may be unread.
  int start_report(Stream& stream);
  /// Waits until report `number` has been copied, and returns it.
  StepReport read_report(int number) const;
  /// Waits for all commands on the stream and returns their report.
  StepReport receive(Stream& stream) { return read_report(start_report(stream)); }

 private:
  StepState& on_host(int number) const;

  Buffer memory_, pinned_;
  mutable std::array<StepState, kReports> own_;  // used if no memory is pinned
  std::array<Event, kReports> sent_, reported_;
  int input_slot_ = 0, report_slot_ = 0;
};

}  // namespace mtl
