// mtl-train's command line: Megatron-LM's names wherever it has one, so that existing scripts run as they are.
#pragma once

#include "cli/flags.h"
#include "train/options.h"

namespace mtl {

/// Declares every flag of mtl-train, those of Megatron that are refused or have no meaning left included.
void add_train_flags(Flags& flags, TrainOptions& options);

}  // namespace mtl
