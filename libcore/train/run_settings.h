// The settings of a run that change its results, as checkpoints record them, and how a resumed run's settings differ.
//
// As in Megatron-LM, a schedule of the learning rate and the weight decay that differs from the checkpoint's is
// refused, unless a flag says which of the two to continue with. Other settings may change; the log lists them.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "optim/lr_schedule.h"
#include "run/options.h"

namespace mtl {

/// Returns the schedule of a run: the checkpoint's with --use-checkpoint-opt_param-scheduler, else the flags'. `extra`
/// is TrainState::extra of the resumed checkpoint, or null. Throws Error(bad_data) if the recorded schedule is invalid.
LrScheduleOptions run_schedule(const TrainOptions& options, const Json& extra);

/// Returns what a checkpoint stores as "settings".
Json settings_record(const TrainOptions& options, const LrScheduleOptions& schedule);

/// Returns "--lr 0.001, now 0.0005; ..." for all keys whose values differ. Equal numbers may have different types.
std::string differences_of(const Json& before, const Json& now);

/// Returns how the run's settings differ from those of the checkpoint `folder`, one line of text for each kind of
/// setting: "FOLDER: ... --adam-beta2 0.999, now 0.95; ...". Reports a schedule that differs without a flag that says
/// which one to use, and --use-checkpoint-opt_param-scheduler if the checkpoint has no schedule. A checkpoint without
/// settings (from another program or an older version) differs in nothing.
std::vector<std::string> changed_settings(const TrainOptions& options, const std::string& folder, const Json& extra,
                                          const ReportProblem& report);

}  // namespace mtl
