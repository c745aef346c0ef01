// Flags for precision.
#pragma once

#include "cli/flags.h"
#include "run/precision_options.h"

namespace mtl {

/// Adds dtype flags for each role, shared by mtl-train and mtl-topo.
void add_precision_flags(Flags& flags, PrecisionOptions& options);
/// Adds flags for fp16's loss scale.
void add_loss_scale_flags(Flags& flags, PrecisionOptions& options);

}  // namespace mtl
