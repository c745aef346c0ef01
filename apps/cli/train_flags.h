// mtl-train's command line: Megatron-LM's names wherever it has one, so that existing scripts run as they are.
#pragma once

#include "cli/flags.h"
#include "train/options.h"
#include "train/start.h"

namespace mtl {

/// Declares every flag of mtl-train, and those of Megatron that are refused or have no effect. `start` is what the run
/// starts from once a check of the caller has found it.
void add_train_flags(Flags& flags, TrainOptions& options, const RunStart& start);

/// Sets the number of ranks: those that were launched, or with --dry-run --world-size. To be called from a
/// check before all others.
void settle_world_size(TrainOptions& options, int launched);

}  // namespace mtl
