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

struct ModelBuild {
  const GptConfig& config;
  DropoutOptions dropout = {};
  std::int64_t padded_vocab = 0;  // rows of the token embedding over all ranks
  DType residual = DType::f32;    // of the hidden states
  DType logits = DType::f32;      // f32, or bf16 with weights in bf16
  TpRegion region = {};
  ContextRegion context = {};
  Recompute recompute = {};
  std::int64_t offloaded_layers = 0;  // as in Layout
};

}  // namespace mtl
