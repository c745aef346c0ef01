// Reads Megatron-LM's torch checkpoints: merges all ranks' shards into canonical tensors.
//
// Accepts all parameter names in megatron_names.h and all checkpoint versions. The version, not the names, determines
// the row order of queries, keys and values. Each pipeline stage numbers its layers from 0. With interleaved stages, a
// file has multiple model chunks: model0, model1, ... read() gathers a slice from the mapped files of the ranks that
// hold parts of it.
#pragma once

#include <memory>
#include <string>

#include "base/console.h"
#include "models/model_source.h"
#include "models/tensor_reader.h"

namespace mtl {

/// Opens a checkpoint for which holds_megatron() is true. Warns about each value that the files do not state, and
/// that we assume.
std::unique_ptr<TensorReader> open_megatron(const std::string& checkpoint, const ModelSupplement& given,
                                            Console& console);

}  // namespace mtl
