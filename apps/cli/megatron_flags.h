// The flags of Megatron-LM's and Megatron-DeepSpeed's pre-training scripts that mtl-train does not have itself.
//
// None is ignored in silence. A flag whose absence would change the result, or that asks for something which is not
// done, is refused with the reason and, where there is one, the remedy. One that may have a single value is checked
// for it. Only what has no meaning left, or asks for what is done anyway, is acknowledged.
#pragma once

#include "cli/flags.h"
#include "train/options.h"

namespace mtl {

void add_megatron_flags(Flags& flags, TrainOptions& options);

}  // namespace mtl
