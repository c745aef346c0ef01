// Reads the checkpoints of Megatron-DeepSpeed and GPT-NeoX: merges all ranks' shards into canonical tensors.
//
// Tensor parallel ranks hold rows or columns of matrices, or all of a vector. Copies of a vector may have drifted apart
// (norms in BLOOM's and GPT-NeoX's training): then the model has their mean, as in the converters of transformers and
// GPT-NeoX. With GPT-NeoX's parallel residual, each rank adds its own bias of a row-parallel linear before the sum over
// the ranks, so that the model's bias is the sum of theirs. A resumed run continues with rank 0's moments of these.
#pragma once

#include <memory>
#include <string>

#include "base/console.h"
#include "models/model_source.h"
#include "models/tensor_reader.h"

namespace mtl {

/// Opens a checkpoint for which holds_deepspeed() is true. Warns about each value that the files do not state, and
/// that we assume.
std::unique_ptr<TensorReader> open_deepspeed(const std::string& checkpoint, const ModelSupplement& given,
                                             Console& console);

}  // namespace mtl
