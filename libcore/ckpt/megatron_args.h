// A model's configuration as Megatron-LM's arguments, for checkpoints that mtl writes.
#pragma once

#include "ckpt/megatron_writer.h"
#include "ckpt/torch_writer.h"

namespace mtl {

/// Appends an argparse.Namespace to the pickle: the arguments that Megatron-LM's --use-checkpoint-args reads, and the
/// parallel sizes.
void write_megatron_args(TorchWriter& writer, const GptConfig& config, const MegatronWriteOptions& options,
                         StoredDType dtype);

}  // namespace mtl
