// The command line of mtl-train. Flags have the names of Megatron-LM where they exist, so that existing scripts run
// unchanged.
#pragma once

#include "cli/flags.h"
#include "train/options.h"
#include "train/start.h"

namespace mtl {

/// Declares every flag of mtl-train, including Megatron-LM's flags that are refused or have no effect. The caller's
/// `prepare` (Flags::parse) must fill in `start`, on which the conditions of some flags depend.
void add_train_flags(Flags& flags, TrainOptions& options, const RunStart& start);

/// Sets the world size to `launched` or, in a dry run, to --world-size. The default for a dry run that was started as
/// one process is the smallest number of ranks that the layout can have. Call in the first Flags::check function.
void settle_world_size(TrainOptions& options, int launched);

}  // namespace mtl
