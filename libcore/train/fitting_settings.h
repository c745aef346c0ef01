// Finds changes to a run's flags that make the run fit in memory.
#pragma once

#include <string>
#include <vector>

#include "train/memory_need.h"
#include "train/start.h"

namespace mtl {

/// Returns up to three settings, beginning with the smallest change of the run. Each setting is verified by planning
/// the changed run, and is returned as a line "\n  FLAGS: MEMORY".
std::vector<std::string> find_fitting_settings(const TrainOptions& options, const RunStart& start,
                                               const HostRanks& host, const FitLimits& limits);

}  // namespace mtl
