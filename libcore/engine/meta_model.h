// A rank's part of a model on the meta device: operators on it check and count, and allocate nothing. All memory plans
// are computed with it.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "comm/groups.h"
#include "device/memory.h"
#include "device/step_state.h"
#include "engine/run_shape.h"
#include "engine/stage.h"
#include "optim/param_store.h"

namespace mtl {

/// Counts of a run.
struct StepCounts {
  Counters work;
  SentBytes sent;
};

struct MetaModel {
  Stream stream;         // operators count here,
  ProcessGroups groups;  // communication here
  Stage stage;
  ParamStore params;
  StepMemory step{Device::meta};

  /// Without `states`, for evaluation, the model has no gradients.
  MetaModel(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape,
            std::optional<std::vector<StateSpec>> states);

  /// Runs `run` and returns its counts.
  template <class Run>
  StepCounts count(const Run& run) {
    stream.reset_counters();
    SentBytes before = sent();
    run();
    return {stream.counters(), sent() - before};
  }

  /// The peak bytes that passes use of their context's arenas. Each pass begins with empty arenas.
  struct PassBytes {
    std::size_t slot = 0, scratch = 0;
  };
  PassBytes measure(const std::vector<std::function<void(Ctx&, const Chunk&)>>& passes);

 private:
  SentBytes sent() const;
};

}  // namespace mtl
