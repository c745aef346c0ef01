// The flags of Megatron-LM's and Megatron-DeepSpeed's pre-training scripts that mtl-train lacks.
//
// None is ignored silently. A flag that would change the result, or that asks for an unsupported feature, is refused
// with the reason and, if there is one, the remedy. A flag with one supported value is refused with any other. A flag
// is acknowledged only if it has no meaning here, or asks for what is always done.
#pragma once

#include "cli/flags.h"
#include "train/options.h"

namespace mtl {

void add_megatron_flags(Flags& flags, TrainOptions& options);

}  // namespace mtl
