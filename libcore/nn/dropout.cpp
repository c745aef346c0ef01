#include "nn/dropout.h"

namespace mtl {

Dropout dropout_at(const DropoutOptions& options, DropoutSite site, std::int64_t layer) {
  return {.probability = site == DropoutSite::attention ? options.attention : options.hidden,
          .key = {options.seed, static_cast<std::uint32_t>(layer) * 4 + static_cast<std::uint32_t>(site)}};
}

Dropout dropout_in(const Ctx& ctx, Dropout dropout) {
  if (!ctx.training) dropout.probability = 0;
  return dropout;
}

}  // namespace mtl
