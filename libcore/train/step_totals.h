// The totals that ranks exchange after every step, in one message: the loss, which only the last pipeline stage knows,
// counts of lost updates, what signals asked of any of them, so that all act on it at the same step, how long each has
// waited for others, and whether one of them failed: every rank takes part in the next exchange, whatever it meets
// before.
#pragma once

#include "comm/communicator.h"
#include "device/step_state.h"
#include "train/data_feed.h"
#include "train/signals.h"

namespace mtl {

struct StepTotals {
  double loss_sum = 0, tokens = 0;       // over all unmasked tokens
  double save = 0, status = 0, end = 0;  // how many ranks were asked for it
  double failed = 0, unsavable = 0;      // how many ranks failed; how many have nothing sound to save
  double nonzero_updates = 0, lost_updates = 0, lost_copies = 0;  // as in StepReport, of all ranks
  double waited = 0;  // seconds for gradients and weights: this rank's; once exchanged, of the rank with the least

  double loss() const { return tokens > 0 ? loss_sum / tokens : 0; }
  /// Adds the losses of a step's micro-batches to `sum`, (1) f64 on the device, and here their tokens.
  void add(Stream& stream, Tensor sum, const StepBatch& step);
  /// The tokens alone.
  void add_tokens(const StepBatch& step);
  /// Takes the figures of a rank's report, the sum of its losses too.
  void take(const StepReport& report);
  /// Adds what signals have asked for since the last time.
  void take(SignalRequests& signals);
  /// Over all ranks, through host memory.
  void exchange(Communicator& world);
};

}  // namespace mtl
