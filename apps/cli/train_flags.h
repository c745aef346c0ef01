// mtl-train's command line. Flags have Megatron-LM's names where there are any, so that existing scripts run unchanged.
#pragma once

#include "cli/flags.h"
#include "train/options.h"
#include "train/start.h"

namespace mtl {

/// Declares every flag of mtl-train, including Megatron-LM's flags that are refused or have no effect. The caller's
/// `prepare` (Flags::parse) must fill in `start`, on which the conditions of some flags depend.
void add_train_flags(Flags& flags, TrainOptions& options, const RunStart& start);

/// Sets the world size: `launched`, or with --dry-run --world-size; a dry run started as one process defaults to the
/// fewest ranks that the layout can have. Call it in the first Flags::check function.
void settle_world_size(TrainOptions& options, int launched);

}  // namespace mtl
