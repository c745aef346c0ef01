// A schedule in the form that checkpoints store, named by the flags. Lengths are in samples. Settings that do not
// affect the schedule, such as the decay length of a constant learning rate, are left out.
#pragma once

#include "base/json.h"
#include "optim/lr_schedule.h"

namespace mtl {

/// Returns {"--lr": 0.001, "--lr-decay-style": "cosine", ...}.
Json schedule_record(const LrScheduleOptions& schedule);
/// Parses what schedule_record() returned. Throws Error(bad_data) if a setting is missing, has the wrong type or
/// contradicts another one.
LrScheduleOptions schedule_from_record(const Json& record);

}  // namespace mtl
