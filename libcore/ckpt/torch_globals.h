// The globals that PyTorch's and Megatron-LM's pickles may use, and their meaning.
#pragma once

#include <optional>
#include <string_view>

#include "ckpt/pickle.h"
#include "ckpt/stored_dtype.h"

namespace mtl {

/// Allows globals for tensors, containers, NumPy arrays, the Namespace of arguments, paths and dates, and Megatron-LM's
/// own classes, all as data. Refuses every other name.
GlobalUse torch_global_use(std::string_view module, std::string_view name);

/// "torch.FloatStorage" -> f32. Empty for other names, and for torch.UntypedStorage.
std::optional<StoredDType> dtype_of_storage(std::string_view global);
/// "torch.float32" -> f32. Empty for other names.
std::optional<StoredDType> dtype_of_torch_global(std::string_view global);
bool is_untyped_storage(std::string_view global);

}  // namespace mtl
