// A canonical tensor's part on one tensor parallel rank, in the shape in which Megatron-LM's checkpoints store it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "formats/stored_dtype.h"
#include "layout/slice.h"
#include "models/tensor_blocks.h"
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

/// Sets `out` to a tensor's elements in `dtype`, with zeros in padding rows.
void read_megatron_elements(TensorBlocks& blocks, const MegatronTensor& tensor, StoredDType dtype,
                            std::vector<std::byte>& out);

}  // namespace mtl
