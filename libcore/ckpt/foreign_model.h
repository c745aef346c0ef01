// Models of other programs, recognized by file names, so that a refusal can name them.
#pragma once

#include <string>

namespace mtl {

/// Describes the file or folder `path` when it is a Megatron-LM checkpoint (torch, torch_dist or zarr format, or the
/// folder that holds its iterations) or PyTorch weights, and what to do: "is a distributed checkpoint ...; mtl does not
/// read it: ...". Empty when it is neither. Opens no file.
std::string describe_foreign_model(const std::string& path);

}  // namespace mtl
