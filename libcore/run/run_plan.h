// What a run's options mean for the engine: the sizes of a step, its dropout and its memory.
#pragma once

#include <vector>

#include "engine/memory_plan.h"
#include "engine/pipeline_plan.h"
#include "engine/rank_plans.h"
#include "engine/run_shape.h"
#include "nn/dropout.h"
#include "run/options.h"

namespace mtl {

/// Returns the dropout of a run.
DropoutOptions run_dropout(const TrainOptions& options);
/// Returns the update rules of a run.
RuleSet run_rules(const TrainOptions& options);
/// Returns the total size, in bytes, of the tensors in each of the run's checkpoints.
std::int64_t run_checkpoint_bytes(const TrainOptions& options, const GptConfig& config);
/// Returns the sizes of a step on one rank.
RunShape run_shape(const TrainOptions& options, const GptConfig& config, int rank);
/// Returns one rank's memory plan.
MemoryPlan plan_run(const TrainOptions& options, const GptConfig& config, int rank);
/// Returns how the pipeline's stages share the work, or nothing for one stage.
std::optional<PipelinePlan> plan_stages(const TrainOptions& options, const GptConfig& config);
/// Returns all ranks' memory plans.
std::vector<RankPlan> plan_run(const TrainOptions& options, const GptConfig& config);
/// Returns plan_run() with the collectives, as printed by --dry-run and mtl-topo.
std::vector<RankPlan> plan_run_report(const TrainOptions& options, const GptConfig& config);
/// Returns what the run communicates while it computes.
ParamTraffic::Overlap run_overlap(const TrainOptions& options);

}  // namespace mtl
