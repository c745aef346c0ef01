// Totals that ranks exchange after every step, in one message: the loss, which only the last pipeline stage has; lost
// update counts; waiting times; failures; and requests to save or end, so that all ranks act on them at the same step.
// A failed rank still joins the next exchange.
#pragma once

#include "comm/communicator.h"
#include "device/step_state.h"
#include "train/data_feed.h"
#include "train/signals.h"
#include "train/stop_request.h"

namespace mtl {

struct StepTotals {
  double loss_sum = 0, z_loss_sum = 0;   // over all unmasked tokens
  double tokens = 0;                     // unmasked
  double save = 0, status = 0, end = 0;  // how many ranks received the signal
  double stop = 0;                       // how many ranks have a StopRequest
  double failed = 0, unsavable = 0;      // how many ranks failed; how many have no state to save
  double skipped = 0;                    // how many ranks make no update: all or none, unless a machine computes wrong
  double wrong = 0;                      // how many ranks have other digests than they should have (StepDigests)
  double writing = 0;                    // how many ranks still write the checkpoint that was begun last
  double nonzero_updates = 0, lost_updates = 0, lost_copies = 0;  // as in StepReport, for all ranks
  double zero_gradients = 0, params_squares = 0;                  // as in StepReport, over the model
  /// Seconds that this rank waited for gradients and weights. After exchange(), the minimum over ranks.
  double waited = 0;

  /// Returns true if the run must end.
  bool ends() const { return end + stop > 0; }
  double loss() const { return tokens > 0 ? loss_sum / tokens : 0; }
  double z_loss() const { return tokens > 0 ? z_loss_sum / tokens : 0; }
  /// Adds the unmasked tokens of a step's micro-batches.
  void add_tokens(const StepBatch& step);
  /// Copies the numbers in a rank's report, including its sums of losses.
  void take(const StepReport& report);
  /// Adds the signals received since the previous call, and the stop request. Requests to end are added in every call.
  void take(SignalRequests& signals, StopRequest& stop_request);
  /// Collective, through host memory. Sums every field over all ranks, except `waited`, for which it takes the minimum.
  void exchange(Communicator& world);
};

}  // namespace mtl
