// mtl-train --dry-run: the plan of a run.
#pragma once

#include <string>

#include "train/options.h"

namespace mtl {

/// Describes parameters, precision, memory by category, tokens and FLOPs of a step, the size of a checkpoint and, with
/// --roofline, the least time of a step: as text, or as JSON with --json.
std::string describe_run(const TrainOptions& options, const GptConfig& config);

}  // namespace mtl
