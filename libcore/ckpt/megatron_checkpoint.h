// Megatron-LM's torch checkpoints: the shards of all ranks, merged into canonical tensors.
//
// Accepts all names of megatron_names.h and all checkpoint versions; the version, not the names, determines the row
// order of queries, keys and values. Pipeline stages number their layers from 0; interleaved stages have several
// chunks: model0, model1, ... read() gathers a slice from the mapped files of the ranks that hold it.
#pragma once

#include <memory>
#include <string>

#include "base/console.h"
#include "ckpt/model_source.h"
#include "ckpt/tensor_reader.h"

namespace mtl {

/// Opens a checkpoint that find_megatron_checkpoint returned. Warns about assumed values.
std::unique_ptr<TensorReader> open_megatron(const std::string& checkpoint, const ModelSupplement& given,
                                            Console& console);

}  // namespace mtl
