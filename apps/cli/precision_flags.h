// The flags of precision.
#pragma once

#include "cli/flags.h"
#include "train/precision_options.h"

namespace mtl {

/// The dtype of each role: for mtl-train, and for plans.
void add_precision_flags(Flags& flags, PrecisionOptions& options);
/// The loss scale of fp16.
void add_loss_scale_flags(Flags& flags, PrecisionOptions& options);

}  // namespace mtl
