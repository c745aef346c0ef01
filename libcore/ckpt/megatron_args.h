// A model's configuration as the arguments of Megatron-LM, for checkpoints that mtl writes.
#pragma once

#include "ckpt/megatron_writer.h"
#include "ckpt/torch_writer.h"

namespace mtl {

/// Appends an argparse.Namespace to the pickle: what Megatron-LM's --use-checkpoint-args reads, and the parallel sizes.
void write_megatron_args(TorchWriter& writer, const GptConfig& config, const MegatronWriteOptions& options,
                         StoredDType dtype);

}  // namespace mtl
