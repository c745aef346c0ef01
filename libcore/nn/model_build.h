// What all chunks of a model on a rank are built from.
#pragma once

#include <cstdint>

#include "device/dtype.h"
#include "layout/recompute.h"
#include "nn/context_region.h"
#include "nn/dropout.h"
#include "nn/gpt_config.h"
#include "nn/tp_region.h"

namespace mtl {

/// For ModelBuild::offloaded_layers: all of a chunk's layers except kResidentLayers.
inline constexpr std::int64_t kAllLayers = INT64_MAX;
/// Layers per chunk that never offload their activations. These stay in the two-range ring (activation_offload.h).
inline constexpr std::int64_t kResidentLayers = 2;

struct ModelBuild {
  const GptConfig& config;
  DropoutOptions dropout = {};
  std::int64_t padded_vocab = 0;  // rows of the token embedding over all ranks
  DType residual = DType::f32;    // of the hidden states
  DType logits = DType::f32;      // f32, or bf16 with weights in bf16
  TpRegion region = {};
  ContextRegion context = {};
  Recompute recompute = {};
  std::int64_t offloaded_layers = 0;  // per chunk, which keep activations in host memory, or kAllLayers
};

}  // namespace mtl
