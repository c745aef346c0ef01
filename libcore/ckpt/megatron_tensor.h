// A canonical tensor's part on one tensor parallel rank, in the shape in which Megatron-LM's checkpoints store it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ckpt/conversion_hook.h"
#include "ckpt/model_source.h"
#include "layout/slice.h"
#include "nn/param.h"

namespace mtl {

struct MegatronTensor {
  std::string name;
  std::string source;               // name in the source: "param.NAME"
  Slice slice;                      // of the canonical tensor
  std::vector<std::int64_t> shape;  // in the file, including vocabulary padding, which is zeros
};

/// Returns the part of a parameter on tensor parallel rank `rank` of `ranks`. A weight with multiple axes becomes a
/// matrix; every other parameter becomes a vector.
MegatronTensor cut_for_rank(const ParamSpec& spec, std::string name, std::int64_t rank, std::int64_t ranks);

/// Returns a tensor's elements in dtype `to`, with zeros in padding rows.
std::vector<std::byte> megatron_elements(const ModelSource& source, const MegatronTensor& tensor, StoredDType to,
                                         const ConversionHook& on_conversion);

}  // namespace mtl
