// The totals that ranks exchange after every step, in one message: the loss, which only the last pipeline stage has,
// counts of lost updates, waiting times, failures, and requests by signals, on which all ranks act at the same step. A
// failed rank still joins the next exchange.
#pragma once

#include "comm/communicator.h"
#include "device/step_state.h"
#include "train/data_feed.h"
#include "train/signals.h"

namespace mtl {

struct StepTotals {
  double loss_sum = 0, tokens = 0;       // over all unmasked tokens
  double save = 0, status = 0, end = 0;  // number of ranks that received the signal
  double failed = 0, unsavable = 0;      // numbers of ranks that failed, and that have no state to save
  double nonzero_updates = 0, lost_updates = 0, lost_copies = 0;  // as in StepReport, of all ranks
  double waited = 0;  // seconds waited for gradients and weights: this rank's; after exchange() the least of any rank

  double loss() const { return tokens > 0 ? loss_sum / tokens : 0; }
  /// Adds the losses of a step's micro-batches to `sum`, (1) f64 on the device, and their unmasked tokens to `tokens`.
  void add(Stream& stream, Tensor sum, const StepBatch& step);
  /// Adds only the unmasked tokens.
  void add_tokens(const StepBatch& step);
  /// Copies the figures of a rank's report, including the sum of its losses.
  void take(const StepReport& report);
  /// Adds the signals received since the previous call; a request to end is added in every call.
  void take(SignalRequests& signals);
  /// Collective, through host memory: sums every field over all ranks; `waited` becomes the least.
  void exchange(Communicator& world);
};

}  // namespace mtl
