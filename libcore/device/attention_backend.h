// Attention implementations for GPUs, with Megatron-LM's names, and `tiles`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mtl {

enum class AttentionBackend {
  automatic,  // the fastest kernel that supports the call
  flash,      // our own fastest kernel
  tiles,      // our own kernels for the tensor cores of every architecture, without those for one architecture
  fused,      // cuDNN
  unfused,    // our own plain kernels, without tensor cores
};

/// Returns auto, flash, tiles, fused, unfused and local. `local` is an alias for unfused.
const std::vector<std::string>& attention_backend_names();
/// Throws Error if the name is unknown.
AttentionBackend parse_attention_backend(std::string_view name);

}  // namespace mtl
