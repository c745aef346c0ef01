// A rank's part of a model and its training step on the meta device, where operators check and count but allocate
// nothing. Memory plans measure and count such steps (memory_plan.h), and records have their operators (step_record.h).
#pragma once

#include <functional>
#include <vector>

#include "comm/groups.h"
#include "device/memory.h"
#include "device/step_state.h"
#include "engine/pipeline.h"
#include "engine/run_shape.h"
#include "engine/stage.h"
#include "optim/optimizer.h"
#include "optim/param_memory.h"

namespace mtl {

/// The work and traffic that MetaModel::count() measured.
struct StepCounts {
  Counters work;
  std::vector<GroupTraffic> sent;
};

struct MetaModel {
  Stream stream;         // counts the work of operators
  ProcessGroups groups;  // count what would be sent
  Stage stage;
  ParamMemory params;
  StepMemory step{Device::meta};

  MetaModel(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape);

  /// Calls `run` and returns the work and traffic of this call.
  template <class Run>
  StepCounts count(const Run& run) {
    stream.reset_counters();
    groups.take_traffic();
    run();
    return {stream.counters(), groups.take_traffic()};
  }

  /// Returns the size of a micro-batch's hidden states, which are a message between stages, and of a message's buffer.
  std::size_t hidden_bytes(const RunShape& shape) const;
  std::size_t message_bytes(const RunShape& shape) const { return (hidden_bytes(shape) + 63) / 64 * 64; }
  /// Peak usage of the slot and scratch arenas, in bytes. measure() calls each function in `passes` on chunk 0, with
  /// empty arenas, and returns the peak over all calls.
  struct PassBytes {
    std::size_t slot = 0, scratch = 0;
  };
  PassBytes measure(const std::vector<std::function<void(Ctx&, const Chunk&)>>& passes);
};

/// What trains the model. Nothing is planned: arenas grow, and their peaks are what a run needs.
struct MetaStep {
  MetaModel model;
  Optimizer optimizer;
  Pipeline pipeline;
  Arena scratch{Device::meta, "scratch", 0};  // of the update

  MetaStep(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape, const StepSchedule& schedule,
           ParamTraffic::Overlap overlap = {});
  void update() { optimizer.step(scratch, model.step.on_device()); }
};

}  // namespace mtl
