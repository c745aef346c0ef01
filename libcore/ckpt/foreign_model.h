// Recognizes models of other programs by their file names, so that an error message can name the format and the remedy.
#pragma once

#include <string>

namespace mtl {

/// If `path` is a Megatron-LM checkpoint (in torch, torch_dist or zarr format, or the folder that holds its iterations)
/// or a file or folder of PyTorch weights, returns a description with a remedy: "is a distributed checkpoint ...; mtl
/// does not read it: ...". Otherwise returns "". Does not open files.
std::string describe_foreign_model(const std::string& path);

}  // namespace mtl
