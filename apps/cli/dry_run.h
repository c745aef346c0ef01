// The plan of a run, before it starts.
#pragma once

#include <string>

#include "train/options.h"

namespace mtl {

/// Parameters, memory by category, tokens and FLOPs of a step, size of a checkpoint: a table, or JSON with --json.
std::string describe_run(const TrainOptions& options, const GptConfig& config);

}  // namespace mtl
