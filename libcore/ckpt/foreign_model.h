// Recognizes other programs' models by their file names, so that error messages can give the format and the remedy.
#pragma once

#include <string>

namespace mtl {

/// If `path` is a Megatron-LM checkpoint (in torch, torch_dist or zarr format, or the folder that contains its
/// iterations) or a file or folder with PyTorch weights, returns a description with a remedy: "is a distributed
/// checkpoint ...; mtl does not read it: ...". Otherwise returns "". Does not open files.
std::string describe_foreign_model(const std::string& path);

}  // namespace mtl
