// mtl-train's command line: Megatron-LM's names where it has one, so that existing scripts run unchanged.
#pragma once

#include "cli/flags.h"
#include "train/options.h"
#include "train/start.h"

namespace mtl {

/// Declares every flag of mtl-train, and the flags of Megatron-LM that are refused or have no effect. The caller's
/// `prepare` (Flags::parse) fills in `start`, on which the conditions of some flags depend.
void add_train_flags(Flags& flags, TrainOptions& options, const RunStart& start);

/// Sets the number of ranks: as launched; with --dry-run, --world-size or the fewest that the layout can have. Call it
/// in the first Flags::check function.
void settle_world_size(TrainOptions& options, int launched);

}  // namespace mtl
