// Runs the parts of a step as CUDA graphs. A part is an action on a micro-batch, such as its forward or backward; or
// both of these, if one stage has the whole model; or the update. The host launches a part with one call.
//
// The first step runs without graphs: it loads libraries, measures matrix multiplications, and creates persistent
// objects. The second step captures every part when it first occurs, and then launches it. Later steps only launch
// parts. If the number of micro-batches changes, the next step runs like the first one. Profiled steps run without
// graphs.
//
// A part is identified by everything that the host decides: the action; its chunk, slot and message buffers; whether
// its micro-batch is the first, which overwrites gradients; whether it is the last, which completes them; and which
// sharded values are gathered already, so that the part does not gather them. Everything else that changes from step to
// step is in device memory: in the StepState, and in the slot's batch. The identities of a micro-batch's forward and
// backward differ only in the action and in what is gathered. Therefore, either both are captured or neither, and a
// backward that runs without a graph finds in the slot what its forward left there.
//
// A rank may wait for other ranks inside a graph. The watchdog supervises such graphs like operations.
//
// When a part is launched, we add the work that was counted during its capture to Stream::counters().
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "comm/groups.h"
#include "device/graph.h"

namespace mtl {

class StepGraphs {
 public:
  explicit StepGraphs(const ProcessGroups& groups) : groups_(groups) {}

  /// Actions that are not in the schedule. The update contains the reduction, unless a step runs that apart.
  static constexpr int kUpdate = -1, kReduction = -2;
  /// A part's identity.
  struct Part {
    int action = kUpdate, chunk = 0, slot = 0;
    int input = 0, gradient = 0;                            // indices of the buffers for messages from other stages
    bool is_first = false, is_last = false;                 // first or last micro-batch in the step
    bool is_pass = false;                                   // also the micro-batch's forward, before the backward
    std::vector<std::optional<std::size_t>> gathered = {};  // as in ParamTraffic::PartState
    auto operator<=>(const Part&) const = default;
  };

  /// Must be called before the parts of a step.
  void begin_step(int micro_batches);
  /// Runs a part. `body` must enqueue its commands on `stream`. Returns true if run() called `body`, or false if it
  /// only launched a graph.
  bool run(Stream& stream, const Part& part, const std::function<void()>& body);

 private:
  struct Captured {
    Graph graph;
    Counters work;
    Communicator* group = nullptr;  // supervises launches: one that the graph uses, or the control group
  };
  const ProcessGroups& groups_;
  int micro_batches_ = 0;
  std::int64_t steps_ = 0;  // consecutive steps with micro_batches_, including this one
  std::map<Part, Captured> parts_;
};

}  // namespace mtl
