// mtl-train --dry-run: the plan of a run.
#pragma once

#include <string>

#include "train/options.h"

namespace mtl {

/// Describes, as text or with --json as JSON: parameters, precision, memory by category, tokens and FLOPs of a step,
/// the size of a checkpoint and, with --roofline, the least time of a step.
std::string describe_run(const TrainOptions& options, const GptConfig& config);

}  // namespace mtl
