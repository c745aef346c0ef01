// mtl-train's command line. Flags have Megatron-LM's names where those exist, so that existing scripts run unchanged.
#pragma once

#include "cli/flags.h"
#include "run/options.h"
#include "train/start.h"

namespace mtl {

/// Declares all of mtl-train's flags, including Megatron-LM flags that are refused or have no effect. The caller's
/// `prepare` (Flags::parse) must fill in `start`, which some flags' conditions depend on.
void add_train_flags(Flags& flags, TrainOptions& options, const RunStart& start);

/// Declares the flags from Megatron-LM and Megatron-DeepSpeed that mtl-train lacks (megatron_flags.cpp).
void add_megatron_flags(Flags& flags, TrainOptions& options);

/// Sets the world size to `launched` or, in a dry run, to --world-size. A dry run started as one process defaults to
/// the smallest number of ranks the layout allows. Must be called in the first Flags::check function.
void resolve_world_size(TrainOptions& options, int launched);

}  // namespace mtl
