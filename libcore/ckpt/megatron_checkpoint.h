// Megatron-LM's torch checkpoints: the shards of all ranks, merged into canonical tensors.
//
// All names of megatron_names.h and all versions: the version, not the names, decides the order of the rows of queries,
// keys and values. A pipeline's stages number their layers from 0; interleaved stages have several chunks, model0,
// model1, ... Nothing is copied: a slice is gathered from the mapped files of the ranks that hold it.
#pragma once

#include <memory>
#include <string>

#include "base/console.h"
#include "ckpt/model_source.h"
#include "ckpt/tensor_reader.h"

namespace mtl {

/// Opens what find_megatron_checkpoint returned. Warns of values that were assumed.
std::unique_ptr<TensorReader> open_megatron(const std::string& checkpoint, const ModelSupplement& given,
                                            Console& console);

}  // namespace mtl
