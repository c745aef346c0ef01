// What a layer is handed besides its operands: where to compute, memory, the groups of ranks, and the queue of weight
// gradients.
#pragma once

#include <vector>

#include "comm/groups.h"
#include "device/memory.h"
#include "device/step_state.h"
#include "device/stream.h"
#include "nn/param.h"

namespace mtl {

/// Weight gradients wait here: backward first finishes dX, whose communication can then overlap with them; a schedule
/// may also run them much later (zero bubble). Their operands live in the micro-batch's slot, never in scratch.
class WeightGradQueue {
 public:
  /// dw += dy^T x, and db += sum over rows of dy if there is a bias. dy (N, out), x (N, in).
  void push(const Param& weight, Tensor dy, Tensor x, const Param& bias = {}) {
    items_.push_back({weight, bias, dy, x});
  }
  void flush(Stream& stream, Arena& scratch);
  bool empty() const { return items_.empty(); }

 private:
  struct Item {
    Param weight, bias;
    Tensor dy, x;
  };
  std::vector<Item> items_;
};

struct Ctx {
  Stream& stream;
  Arena& slot;     // lives from this micro-batch's forward to the end of its backward
  Arena& scratch;  // last in, first out, within one call
  const ProcessGroups& groups;
  bool training;                            // dropout acts, and caches are kept for backward
  ParamOwner* params = nullptr;             // null: all parameters are there, and gradients stay where they are
  const StepState* step = nullptr;          // whose loss scale gradients carry; null: 1
  bool ends_gradients = false;              // nothing is added to this chunk's gradients after this call
  bool defers_weights = false;              // the schedule has an action of its own for weight gradients
  WeightGradQueue* weight_grads = nullptr;  // in backward: the queue of the unit that computes
};

}  // namespace mtl
