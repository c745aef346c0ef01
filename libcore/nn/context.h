// What layers receive along with their operands: stream, memory, process groups, and the weight gradient queue.
#pragma once

#include <vector>

#include "comm/groups.h"
#include "device/memory.h"
#include "device/step_state.h"
#include "device/stream.h"
#include "nn/activation_offload.h"
#include "nn/param.h"

namespace mtl {

/// Deferred weight gradients. Backward computes dX first, so that its communication can overlap with the weight
/// gradients. A zero-bubble schedule computes them much later. Their operands live in the micro-batch's slot, never in
/// scratch.
class WeightGradQueue {
 public:
  /// Queues dw += dy^T x and, if there is a bias, db += dy summed over its rows. dy (N, out), x (N, in).
  void push(const Param& weight, Tensor dy, Tensor x, const Param& bias = {}) {
    items_.push_back({weight, bias, dy, x});
  }
  /// Computes the queued gradients in order, and empties the queue.
  void flush(Stream& stream, Arena& scratch);

 private:
  struct Item {
    Param weight, bias;
    Tensor dy, x;
  };
  std::vector<Item> items_;
};

struct Ctx {
  Stream& stream;
  Arena* slot;     // never null; lives from this micro-batch's forward until its backward ends
  Arena& scratch;  // released in reverse order, within one call
  const ProcessGroups& groups;
  bool training;                            // dropout is applied, and caches are kept for backward
  ParamOwner* params = nullptr;             // null: all parameters are resident, and gradients are not reduced
  const StepState* step = nullptr;          // holds the loss scale; null: 1
  ActivationOffload* offload = nullptr;     // for this micro-batch; required if the chunk has offloaded layers
  bool ends_gradients = false;              // this is the last call that adds to this chunk's gradients
  bool defers_weights = false;              // the schedule computes weight gradients in a separate action
  WeightGradQueue* weight_grads = nullptr;  // in backward: the queue of the current unit

  /// Computes the unit's queued weight gradients, unless the schedule defers them. Layers call it between the start of
  /// a sum over ranks and the wait for it.
  void compute_weight_grads() const {
    if (!defers_weights) weight_grads->flush(stream, scratch);
  }
};

}  // namespace mtl
