// Flags for precision.
#pragma once

#include "cli/flags.h"
#include "train/precision_options.h"

namespace mtl {

/// Adds flags for the dtype of each role, shared by mtl-train and mtl-topo.
void add_precision_flags(Flags& flags, PrecisionOptions& options);
/// Adds flags for the loss scale of fp16.
void add_loss_scale_flags(Flags& flags, PrecisionOptions& options);

}  // namespace mtl
