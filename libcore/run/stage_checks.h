// Checks how layers and micro-batches are divided among pipeline stages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/usage_error.h"
#include "run/options.h"

namespace mtl {

/// Reports flags that contradict each other or do not fit the number of layers, and layers that cannot be distributed
/// over the stages. Without `num_layers`, reports flags that need it. `is_fixed` means that the model is loaded.
/// Returns true if there is no problem.
bool check_stages(const ParallelOptions& options, std::optional<std::int64_t> num_layers, bool is_fixed,
                  const ReportProblem& report);

/// Reports a schedule that does not fit the number of chunks per stage. `flag` is the schedule's flag. Returns true if
/// there is no problem. check_stages() must have found none.
bool check_schedule_kind(const ParallelOptions& options, std::optional<std::int64_t> num_layers,
                         const std::string& flag, const ReportProblem& report);

/// Reports a schedule that cannot run steps of `micro_batches` micro-batches. `step` is the flag that determines their
/// number, with its value. check_schedule_kind() must have found no problem.
void check_step(const ParallelOptions& options, std::optional<std::int64_t> num_layers, std::int64_t micro_batches,
                const std::string& step, const ReportProblem& report);

}  // namespace mtl
