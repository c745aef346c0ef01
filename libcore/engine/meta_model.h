// A rank's part of a model on the meta device, whose operators check and count but allocate nothing. Memory plans are
// computed by running it.
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

/// Work and traffic that count() measured.
struct StepCounts {
  Counters work;
  SentBytes sent;
};

struct MetaModel {
  Stream stream;         // counts operators
  ProcessGroups groups;  // count communication
  Stage stage;
  ParamStore params;
  StepMemory step{Device::meta};

  /// Without `states`, for evaluation, the parameters have no gradients.
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

  /// The peak bytes that passes over chunk 0 use in the slot and scratch arenas. Each pass begins with empty arenas.
  struct PassBytes {
    std::size_t slot = 0, scratch = 0;
  };
  PassBytes measure(const std::vector<std::function<void(Ctx&, const Chunk&)>>& passes);

 private:
  SentBytes sent() const;
};

}  // namespace mtl
