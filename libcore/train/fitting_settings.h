// Finds flag changes that make a run fit in memory.
#pragma once

#include <string>
#include <vector>

#include "train/memory_need.h"
#include "train/start.h"

namespace mtl {

/// Returns up to three settings, starting with the smallest change to the run. Each setting has been verified by
/// planning the changed run, and is returned as a line "\n  FLAGS: MEMORY".
std::vector<std::string> find_fitting_settings(const TrainOptions& options, const RunStart& start,
                                               const HostRanks& host, const FitLimits& limits);

}  // namespace mtl
