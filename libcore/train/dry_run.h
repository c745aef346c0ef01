// mtl-train --dry-run: the plan of a run.
#pragma once

#include <string>

#include "run/options.h"

namespace mtl {

/// Describes parameters, precision, memory by category, tokens and FLOPs per step, checkpoint size and, with
/// --roofline, a lower bound on the step time. Returns text or, with --json, JSON.
std::string describe_run(const TrainOptions& options, const GptConfig& config);

}  // namespace mtl
