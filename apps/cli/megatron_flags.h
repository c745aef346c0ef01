// The flags of Megatron-LM's and Megatron-DeepSpeed's pre-training scripts that mtl-train lacks.
//
// No flag is ignored silently. A flag that would change the result, or that requests an unsupported feature, is refused
// with the reason and, if possible, a remedy. A flag with only one supported value is refused with any other value. A
// flag is acknowledged only if it has no meaning here, or if it requests what is always done.
#pragma once

#include "cli/flags.h"
#include "train/options.h"

namespace mtl {

void add_megatron_flags(Flags& flags, TrainOptions& options);

}  // namespace mtl
