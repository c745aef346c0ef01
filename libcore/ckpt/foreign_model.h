// Recognizes other programs' models by their file names, so that error messages can give the format and the remedy.
#pragma once

#include <string>
#include <string_view>

namespace mtl {

/// True for the path or name of a file with DeepSpeed's naming: ..._model_states.pt, ..._optim_states.pt.
bool is_deepspeed_file(std::string_view path);
/// True for the path or name of a file in which Megatron-LM's distributed optimizer saves its state.
bool is_optimizer_file(std::string_view path);

/// If `path` is a checkpoint of Megatron-LM (in torch, torch_dist or zarr format), PyTorch, DeepSpeed or GPT-NeoX, the
/// folder that contains its iterations, or a file or folder with PyTorch weights, returns a description with a remedy:
/// "is a distributed checkpoint ...; mtl does not read it: ...". Otherwise returns "". Does not open files.
std::string describe_foreign_model(const std::string& path);

}  // namespace mtl
