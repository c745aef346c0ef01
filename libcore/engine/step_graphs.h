// The parts of a step as CUDA graphs: the forward and the backward of a micro-batch, and the update. The host launches
// a part with one call.
//
// The first step runs without graphs: libraries start, products are measured, and objects that persist are made. The
// second step captures every part where it first occurs, and launches it; later steps only launch. A part is identified
// by what the host decides: the action, its chunk and slot, whether its micro-batch is the first, which writes
// gradients, or the last, which ends them. All other changes from step to step are on the device, in the StepState and
// in the batch of the slot. The forward and the backward of a micro-batch differ only in the action, so that both are
// captured or neither: a backward that the host executes finds what its forward left in the slot. A step with another
// number of micro-batches starts over. A profiled step runs without graphs.
//
// Launched parts count (Stream::counters()) as they did when they were captured.
#pragma once

#include <compare>
#include <functional>
#include <map>

#include "device/graph.h"

namespace mtl {

class StepGraphs {
 public:
  /// The identity of a part. An `action` below zero is not one of a schedule.
  struct Part {
    int action = -1, chunk = 0, slot = 0;
    int input = 0, gradient = 0;             // buffers of the messages from other stages
    bool is_first = false, is_last = false;  // micro-batch
    auto operator<=>(const Part&) const = default;
  };

  /// Call before the parts of a step.
  void begin_step(int micro_batches);
  /// Runs a part, whose commands `body` enqueues on the stream. Returns true if it called `body`, false if it only
  /// launched a graph.
  bool run(Stream& stream, const Part& part, const std::function<void()>& body);

 private:
  struct Captured {
    Graph graph;
    Counters work;
  };
  int micro_batches_ = 0;
  std::int64_t steps_ = 0;  // in a row of micro_batches_, this one included
  std::map<Part, Captured> parts_;
};

}  // namespace mtl
