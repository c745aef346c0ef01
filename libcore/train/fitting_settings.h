// Finds changes of a run's flags that make it fit its memory.
#pragma once

#include <string>
#include <vector>

#include "train/memory_need.h"
#include "train/start.h"

namespace mtl {

/// Returns up to three, the smallest change of the run first, each verified by planning that run. One line each:
/// "\n  FLAGS: MEMORY".
std::vector<std::string> find_fitting_settings(const TrainOptions& options, const RunStart& start,
                                               const HostRanks& host, const FitLimits& limits);

}  // namespace mtl
