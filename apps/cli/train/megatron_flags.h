// Pre-training flags from Megatron-LM and Megatron-DeepSpeed that mtl-train lacks.
//
// No flag is ignored silently. A flag that would change the result, or that requests an unsupported feature, is refused
// with a reason and, if possible, a remedy. If only one value is supported, any other is refused. A flag is
// acknowledged only if it has no meaning here or requests what we always do.
#pragma once

#include "cli/flags.h"
#include "run/options.h"

namespace mtl {

void add_megatron_flags(Flags& flags, TrainOptions& options);

}  // namespace mtl
