// How a pipeline divides the work: the FLOPs of every stage, how busy the schedule can keep them, and a division that
// balances them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/run_shape.h"
#include "layout/schedule_times.h"
#include "layout/stages.h"
#include "nn/dropout.h"
#include "nn/gpt_config.h"

namespace mtl {

/// The FLOPs of a micro-batch in the model's parts. They are the same for every number of stages and chunks.
struct PartFlops {
  double embedding = 0, head = 0;
  std::vector<double> layers;
};
PartFlops part_flops(const GptConfig& config, const DropoutOptions& dropout, RunShape shape);

/// Distributes the layers so that the stage with the most FLOPs has as few as possible, and the FLOPs of the others are
/// as equal as possible; with several chunks per stage, to which single layers are moved from an equal division of the
/// chunks, other divisions may be a little better. Every place but the first and the last gets at least one layer.
/// Returns the number of layers of every place, by position. There must be enough layers.
std::vector<std::int64_t> balanced_layer_counts(const PartFlops& parts, const Places& places);
std::vector<std::int64_t> balanced_layer_counts(const GptConfig& config, const DropoutOptions& dropout,
                                                const RunShape& shape);

struct PipelinePlan {
  std::string schedule;
  Places places;
  std::int64_t micro_batches = 1;
  std::string layout;                           // as --pipeline-model-parallel-layout
  std::vector<std::vector<LayerRange>> layers;  // by stage and chunk
  std::vector<double> flops;                    // of a micro-batch, by stage
  double head_flops = 0;                        // of a micro-batch in the output layer
  /// The share of a step's time in which the average stage works, if FLOPs alone take time: the speed, divided by that
  /// of as many independent ranks.
  double busy = 1;

  /// Returns true if the output layer alone needs more than an equal share of the work.
  bool head_is_too_large() const;
};

/// Returns nothing for a single stage.
std::optional<PipelinePlan> plan_pipeline(const GptConfig& config, const DropoutOptions& dropout,
                                          const RunShape& shape);
/// Returns a table of stages, with remarks.
std::string describe_pipeline(const PipelinePlan& plan);
Json pipeline_json(const PipelinePlan& plan);

}  // namespace mtl
