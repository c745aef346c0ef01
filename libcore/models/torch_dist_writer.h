// Writes a model as a Megatron-LM checkpoint in the format torch_dist, as megatron-core's dist_checkpointing does: the
// weights, the arguments that describe the model and, if the source has an optimizer state, that state, so that
// Megatron-LM continues the run in any layout.
//
//   FOLDER/latest_checkpointed_iteration.txt      the iteration, or "release" without an optimizer state
//   FOLDER/iter_0000030/ or FOLDER/release/
//     metadata.json         the format's name and version
//     common.pt             the arguments, the iteration, groups of the optimizer's parameters, the schedule's position
//     .metadata, *.distcp   the tensors (dcp_writer.h)
//
// A tensor has megatron-core's name without the layer number, and the layers as its first axis. The optimizer's tensors
// are optimizer.state.{param,exp_avg,exp_avg_sq}.NAME, of the shape of NAME and fp32. This is the distributed
// optimizer's kind fully_reshardable, from which it continues with any number of tensor, pipeline and data-parallel
// ranks.
#pragma once

#include <string>

#include "models/megatron_writer.h"

namespace mtl {

/// Writes the checkpoint into an existing, empty folder, as write_megatron() does. Of the parallel sizes, only the
/// tensor parallel size has an effect, on the padding of the vocabulary.
void write_torch_dist(const ModelSource& source, const std::string& folder, MegatronWriteOptions options);

/// True if the source states Adam's betas and epsilon, which a checkpoint's groups of parameters contain. Otherwise
/// write_torch_dist() writes Megatron-LM's defaults.
bool states_adam_settings(const ModelSource& source);

}  // namespace mtl
