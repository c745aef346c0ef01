// The difference between two models' logits on fixed token sequences.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "models/model_source.h"

namespace mtl {

struct ModelComparison {
  std::int64_t positions = 0;
  double max_difference = 0;  // absolute
  double max_logit = 0;       // absolute, of model `a`
};

/// Throws Error(usage) unless there is enough memory to run a model with this configuration in fp32 on `device`.
void check_comparison_memory(const GptConfig& config, Device device);

/// Runs both models in fp32. Throws if their configurations differ or a logit is not finite.
ModelComparison compare_models(const ModelSource& a, const ModelSource& b, int threads, Device device = Device::cpu);

}  // namespace mtl
