// Writes a model's configuration as Megatron-LM arguments, for checkpoints exported to Megatron-LM.
#pragma once

#include "formats/torch_writer.h"
#include "models/megatron_writer.h"

namespace mtl {

/// The format of a checkpoint, and how far its run is.
struct MegatronProgress {
  const char* ckpt_format = "torch";  // Megatron-LM's --ckpt-format
  bool has_optimizer = false;         // the checkpoint contains the distributed optimizer's state
  std::int64_t iteration = 0, consumed_samples = 0, consumed_valid_samples = 0;
};

/// Appends an argparse.Namespace to the writer's pickle. It contains the arguments that Megatron-LM reads with
/// --use-checkpoint-args, the parallel sizes, and the run's progress.
void write_megatron_args(TorchWriter& writer, const ModelSource& source, const MegatronWriteOptions& options,
                         StoredDType dtype, const MegatronProgress& progress);

}  // namespace mtl
