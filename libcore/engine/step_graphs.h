// The parts of a step as CUDA graphs: the forward and the backward of a micro-batch, and the update. The host launches
// a part with one call.
//
// The first step runs without graphs: it loads libraries, measures matrix products, and creates persistent objects. The
// second step captures every part when it first occurs, and launches it; later steps only launch parts. A part is
// identified by what the host decides: the action, its chunk, slot and message buffers, whether its micro-batch is the
// first, which overwrites gradients, or the last, which completes them. All other changes from step to step are on the
// device, in the StepState and in the batch of the slot. The forward and the backward of a micro-batch differ only in
// the action, so that both are captured or neither: a backward that the host executes finds what its forward left in
// the slot. After a change of the number of micro-batches, the next step runs like the first. A profiled step runs
// without graphs.
//
// A launch adds to Stream::counters() what the capture did.
#pragma once

#include <compare>
#include <functional>
#include <map>

#include "device/graph.h"

namespace mtl {

class StepGraphs {
 public:
  /// The identity of a part. A negative `action` is outside the schedule: the update.
  struct Part {
    int action = -1, chunk = 0, slot = 0;
    int input = 0, gradient = 0;             // buffers of the messages from other stages
    bool is_first = false, is_last = false;  // of the step's micro-batches
    auto operator<=>(const Part&) const = default;
  };

  /// Call before the parts of a step.
  void begin_step(int micro_batches);
  /// Runs a part; `body` enqueues its commands on the stream. Returns true if it called `body`, false if it only
  /// launched a graph.
  bool run(Stream& stream, const Part& part, const std::function<void()>& body);

 private:
  struct Captured {
    Graph graph;
    Counters work;
  };
  int micro_batches_ = 0;
  std::int64_t steps_ = 0;  // steps in a row with micro_batches_, this one included
  std::map<Part, Captured> parts_;
};

}  // namespace mtl
