// The attention implementations that a GPU may use, with Megatron-LM's names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mtl {

enum class AttentionBackend {
  automatic,  // the fastest kernel that supports the call
  flash,      // the fastest of this library's own kernels
  fused,      // cuDNN's kernels
  unfused,    // this library's plain kernels, without tensor cores
};

/// Returns auto, flash, fused, unfused, and local, which is an alias for unfused.
const std::vector<std::string>& attention_backend_names();
/// Throws Error for any other name.
AttentionBackend parse_attention_backend(std::string_view name);

}  // namespace mtl
