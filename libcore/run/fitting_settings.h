// Finds flag changes that make a run fit in memory.
#pragma once

#include <string>
#include <vector>

#include "nn/gpt_config.h"
#include "run/memory_need.h"
#include "run/options.h"

namespace mtl {

/// What a run starts from, which says what of it may change.
struct FitStart {
  GptConfig config;
  bool loads_weights = false, resumes = false;
};

/// Returns up to three settings, starting with the smallest change to the run. Each setting has been verified by
/// planning the changed run, and is returned as a line "\n  FLAGS: MEMORY".
std::vector<std::string> find_fitting_settings(const TrainOptions& options, const FitStart& start,
                                               const HostRanks& host, const FitLimits& limits);

}  // namespace mtl
