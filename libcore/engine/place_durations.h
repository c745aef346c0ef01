// How much a micro-batch costs in every place of a pipeline, for schedules and for balanced stages.
#pragma once

#include <vector>

#include "engine/run_shape.h"
#include "nn/dropout.h"
#include "nn/gpt_config.h"

namespace mtl {

/// Returns the FLOPs of a micro-batch in every place, by position, of recorded steps (step_record.h). They are the same
/// on every rank. Recomputation counts as backward, and so do weight gradients that the schedule does not leave for
/// later. Throws Error(usage) if the layers cannot be split over the stages.
std::vector<ActionDurations> place_durations(const GptConfig& config, const DropoutOptions& dropout, RunShape shape);

}  // namespace mtl
