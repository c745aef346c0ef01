// Writes a model's configuration as Megatron-LM arguments, for checkpoints exported to Megatron-LM.
#pragma once

#include "ckpt/megatron_writer.h"
#include "ckpt/torch_writer.h"

namespace mtl {

/// Appends an argparse.Namespace to the writer's pickle. It contains the arguments that Megatron-LM reads with
/// --use-checkpoint-args, and the parallel sizes.
void write_megatron_args(TorchWriter& writer, const ModelSource& source, const MegatronWriteOptions& options,
                         StoredDType dtype);

}  // namespace mtl
