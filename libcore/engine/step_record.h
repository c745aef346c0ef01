// A training step of one rank, recorded on the meta device: its operators, its operations with other ranks, and which
// action of the schedule each belongs to. Rooflines, the counts of collectives and the planner's simulation read it.
#pragma once

#include <vector>

#include "device/profile.h"
#include "engine/run_shape.h"
#include "layout/schedule.h"
#include "nn/dropout.h"
#include "nn/gpt_config.h"
#include "optim/param_traffic.h"

namespace mtl {

/// The first micro-batch, the one after it, one of those between, and the last may each do different things.
inline constexpr int kRecordedMicroBatches = 4, kBetweenMicroBatches = 2;
/// The name of a recorded update's phase.
inline constexpr const char* kUpdatePhase = "optimizer";

struct StepRecord {
  /// Two steps, of at most kRecordedMicroBatches, because with gathers in the background, the second waits for those of
  /// the first. Unlike in a run, each micro-batch passes through all chunks and back before the next begins
  /// (counting_schedule()). Operations between ranks start, and are waited for, where a run does so: with
  /// RunShape::graphs, where its graphs end.
  Profile profile{Device::meta};
  /// By entry of `profile`: how many entries of a real step it stands for. Those of the micro-batch between the others
  /// stand for all of its kind. The first two stand only for themselves: with a ring of gradients
  /// (optim/param_memory.h), a micro-batch ends the last sums of the one before, and those of the first are not added.
  /// Entries of the second step have weight 0.
  std::vector<double> weights;

  /// An action's entries, from `begin` to `end`.
  struct Part {
    Action action;
    std::size_t begin, end;
    double host_bytes = 0;  // of activations copied to host memory, or from there
  };
  int micro_batches = 1;         // recorded
  std::vector<Part> second;      // the second step's actions, in order
  std::size_t update = 0;        // the first entry of the second step's update, which ends the profile
  double update_host_bytes = 0;  // of states that the update copies from host memory, and back at the same time
  double update_file_bytes = 0;  // of states that the update reads from files, and writes back at the same time
};

/// Records the step of shape.layout.rank. Unless it `counts`, leaves out the first step's micro-batches, which only
/// counts need: the entries with a weight.
StepRecord record_step(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape,
                       ParamTraffic::Overlap overlap = {}, bool counts = true);

}  // namespace mtl
