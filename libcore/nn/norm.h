// A normalization layer: LayerNorm or RMSNorm.
#pragma once

#include "kernels/layernorm.h"
#include "kernels/rmsnorm.h"
#include "nn/context.h"
#include "nn/gpt_config.h"
#include "nn/tp_region.h"

namespace mtl {

struct NormLayer {
  Norm kind = Norm::layernorm;
  std::int64_t width = 0;  // C
  float eps = 0;
  TpRegion region;  // the norm runs outside this region
  Param gamma;      // (C)
  Param beta;       // (C); RMSNorm has none

  using Cache = LayerNormCache;  // RMSNorm does not use the mean

  NormLayer(const GptConfig& config, TpRegion tp_region);
  void params(const ParamVisitor& visit, const std::string& prefix);
  /// Returns y = norm(x) in the slot, in the weights' dtype. x (n, C) must not change until backward. If `sum` is
  /// given, first writes that sum to x, in the same pass over memory.
  Tensor forward(Ctx& ctx, Tensor x, Cache& cache, const ResidualSum& sum = {}) const;
  /// Writes dx, which may overwrite x, and the gamma and beta gradients.
  void backward(Ctx& ctx, const StreamGrad& dx, Tensor dy, const Cache& cache) const;
};

}  // namespace mtl
