// Attention implementations for GPUs, with Megatron-LM's names, and `tiles`.
#pragma once

#include <array>
#include <string_view>

namespace mtl {

enum class AttentionBackend {
  automatic,  // the fastest kernel that supports the call
  flash,      // our own fastest kernel
  tiles,      // our own kernels for the tensor cores of every architecture, without those for one architecture
  fused,      // cuDNN
  unfused,    // our own plain kernels, without tensor cores
};
/// Their names in flags, in the order of the enum. `local` is an alias for unfused.
inline constexpr std::array kAttentionBackends = {"auto", "flash", "tiles", "fused", "unfused", "local"};

/// Throws Error if the name is unknown.
AttentionBackend parse_attention_backend(std::string_view name);

}  // namespace mtl
