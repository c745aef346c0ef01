// A rank's part of a model on the meta device: what runs on it is checked and counted, and allocates nothing. Every
// plan of memory is made with it.
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

/// What a run counted.
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

  /// Without `states` there are no gradients: for evaluation.
  MetaModel(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape,
            std::optional<std::vector<StateSpec>> states);

  /// What `run` counts.
  template <class Run>
  StepCounts count(const Run& run) {
    stream.reset_counters();
    SentBytes before = sent();
    run();
    return {stream.counters(), sent() - before};
  }

  /// What passes take of the arenas of their context at most. Each begins with empty ones.
  struct PassBytes {
    std::size_t slot = 0, scratch = 0;
  };
  PassBytes measure(const std::vector<std::function<void(Ctx&, const Chunk&)>>& passes);

 private:
  SentBytes sent() const;
};

}  // namespace mtl
