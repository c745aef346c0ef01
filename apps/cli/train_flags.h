// mtl-train's command line: Megatron-LM's names wherever it has one, so that existing scripts run as they are.
#pragma once

#include "cli/flags.h"
#include "train/options.h"

namespace mtl {

/// Declares every flag of mtl-train, those of Megatron that are refused or have no meaning left included.
void add_train_flags(Flags& flags, TrainOptions& options);

/// How many ranks there are: as many as were launched, or with --dry-run as --world-size says. To be called from a
/// check before all others.
void settle_world_size(Flags& flags, TrainOptions& options, int launched);

}  // namespace mtl
