// What one rank does in a training step, in order: operators, starts of operations between ranks, and waits for them.
// From a recorded step (engine/step_record.h), once per kind of action; a step of any number of micro-batches consists
// of these.
#pragma once

#include <string>
#include <vector>

#include "comm/operation_label.h"
#include "device/dtype.h"
#include "device/stream.h"
#include "engine/run_shape.h"
#include "layout/schedule.h"
#include "nn/dropout.h"
#include "nn/gpt_config.h"
#include "optim/param_traffic.h"

namespace mtl {

/// Operators that reach similar shares of a device's peak rates.
enum class OperatorClass { gemm, attention_forward, attention_backward, memory };

struct TraceEvent {
  enum class Kind { work, start, wait, copy };  // copy: only in a simulation, `group` says where from
  Kind kind = Kind::work;

  OperatorClass operator_class = OperatorClass::memory;  // of work
  std::string name = "", operands = "";                  // of work, as in a profile
  DType dtype = DType::f32;
  Counters work = {};
  int unit = -1;  // the embedding is 0, layer i is i + 1, the output layer is the last; -1: of no unit

  OperationKind operation = OperationKind::all_reduce;  // of a start, or of the start that a wait is for
  std::string group = "";                               // its group's name (comm/groups.h)
  double bytes = 0;                                     // that the rank sends
  /// Of a wait: the start's index in the same list, or -1 if the operation started in an earlier one. Operations of a
  /// kind in a group that outlive their list are waited for in the order of their starts.
  int started = -1;
  bool outlives = false;  // of a start: waited for in a later list, or not at all
};

/// A rank's step. Messages between stages are not in the lists: they follow from the schedule.
struct StepTrace {
  std::vector<Action> schedule;  // the rank's, with communication
  int micro_batches = 1;
  double message_bytes = 0;  // of hidden states, or of their gradient
  std::vector<TraceEvent> update;
  double update_host_bytes = 0;  // of states that the update copies from host memory, and back at the same time
  double update_file_bytes = 0;  // of states that the update reads from files, and writes back at the same time

  struct Recorded {
    Action action;
    std::vector<TraceEvent> events;
    double host_bytes = 0;  // of activations copied to host memory, or from there
  };
  std::vector<Recorded> recorded;
  int recorded_micro_batches = 1;
  /// Returns the index in `recorded` of what the rank does in a forward, backward or weight action.
  std::size_t index_of(const Action& action) const;
};

/// Records a step of layout.rank, without its schedule.
StepTrace trace_step(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape,
                     ParamTraffic::Overlap overlap);
/// Records a step of one rank of every stage, with its schedule. `schedule` is pipeline_schedule() of shape.layout.
std::vector<StepTrace> trace_stages(const GptConfig& config, const DropoutOptions& dropout, RunShape shape,
                                    ParamTraffic::Overlap overlap, const std::vector<std::vector<Action>>& schedule);

}  // namespace mtl
