// Reads Megatron-LM's distributed checkpoints (--ckpt-format torch_dist), which are DCP folders (dcp_folder.h):
//
//   DIR/metadata.json   {"sharded_backend": "torch_dist", "sharded_backend_version": 1, ...}
//   DIR/.metadata, DIR/__R_K.distcp
//   DIR/common.pt       args, iteration, ...; since megatron-core 0.17 the object common_state/shard_0_1 instead
//
// Tensors are global: the shards of all tensor, pipeline and data parallel ranks are boxes of one tensor. The names
// are those of megatron-core with Transformer Engine. A stack of layers is one tensor, with the layer as first axis.
// All gate rows of linear_fc1 come before all up rows. Rows of queries, keys and values, and padding rows of the
// vocabulary, are as in the torch format of checkpoint version 3.
#pragma once

#include <memory>
#include <string>

#include "base/console.h"
#include "models/dcp_llama.h"
#include "models/model_source.h"
#include "models/tensor_reader.h"

namespace mtl {

inline constexpr std::string_view kDistMetadataName = "metadata.json", kDistCommonName = "common.pt";

inline constexpr FormatMark kTorchDistMarks[] = {{".metadata", kDcpWhat, kReadRemedy, kDistMetadataName},
                                                 {".metadata", kDcpWhat, kReadRemedy, kDistCommonName},
                                                 {"*.distcp", kDcpWhat, kNoIndexRemedy, kDistMetadataName},
                                                 {"*.distcp", kDcpWhat, kNoIndexRemedy, kDistCommonName}};

/// Opens such a checkpoint. Warns about each value that the files do not state, and
/// that we assume.
std::unique_ptr<TensorReader> open_torch_dist(const std::string& folder, const ModelSupplement& given,
                                              Console& console);

}  // namespace mtl
