// Changes of a run's flags with which it fits its memory.
#pragma once

#include <string>
#include <vector>

#include "train/memory_need.h"
#include "train/start.h"

namespace mtl {

/// Up to three, those that change the run least first, each planned like the run itself; a line each:
/// "\n  FLAGS: MEMORY".
std::vector<std::string> find_fitting_settings(const TrainOptions& options, const RunStart& start,
                                               const HostRanks& host, const FitLimits& limits);

}  // namespace mtl
