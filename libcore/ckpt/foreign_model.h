// Recognizes other programs' models by their file names, so that an error can name the format and the remedy.
#pragma once

#include <string>

namespace mtl {

/// Describes the file or folder `path` if it is a Megatron-LM checkpoint (torch, torch_dist or zarr format, or the
/// folder that holds its iterations) or PyTorch weights, with the remedy: "is a distributed checkpoint ...; mtl does
/// not read it: ...". Returns "" for anything else. Opens no file.
std::string describe_foreign_model(const std::string& path);

}  // namespace mtl
