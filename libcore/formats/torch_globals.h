// The globals that the pickles of PyTorch, Megatron-LM and DeepSpeed may use, and what they mean.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "formats/pickle.h"
#include "formats/stored_dtype.h"

namespace mtl {

struct AllowedGlobal {
  std::string_view module, name;
  GlobalUse use;
};
/// Returns the use of a global in a table. Empty if it is not there.
std::optional<GlobalUse> find_global(std::span<const AllowedGlobal> table, std::string_view module,
                                     std::string_view name);

/// The GlobalRule for files written by torch.save(). Allows globals for tensors, containers, NumPy arrays,
/// argparse.Namespace, paths, dates, and classes of Megatron-LM and DeepSpeed, all as data. Rejects every other global.
GlobalUse torch_global_use(std::string_view module, std::string_view name);

/// Returns a storage class's dtype: "torch.FloatStorage" -> f32. Empty for other names and for UntypedStorage.
std::optional<StoredDType> dtype_of_storage(std::string_view global);
/// Returns the stored dtype for a torch.dtype: "torch.float32" -> f32. Empty for other names.
std::optional<StoredDType> dtype_of_torch_global(std::string_view global);
bool is_untyped_storage(std::string_view global);
/// Returns the name of the storage class for a model dtype (is_model_dtype()): f32 -> "FloatStorage".
std::string_view storage_class_of(StoredDType dtype);

}  // namespace mtl
