#include "optim/grad_scaler.h"

#include <algorithm>
#include <cmath>

namespace mtl {

void GradScaler::update(bool found_inf) {
  is_exhausted_ = false;
  if (!options_.is_dynamic) return;
  if (found_inf) {
    state_.growth_tracker = 0;
    if (--state_.hysteresis_tracker > 0) return;
    is_exhausted_ = state_.scale <= options_.min_scale;
    state_.scale = std::max(state_.scale * options_.backoff_factor, options_.min_scale);
    return;
  }
  if (++state_.growth_tracker < options_.window) return;
  state_.growth_tracker = 0;
  state_.hysteresis_tracker = options_.hysteresis;
  if (const float larger = state_.scale * options_.growth_factor; std::isfinite(larger)) state_.scale = larger;
}

void GradScaler::restore(const State& state) {
  if (options_.is_dynamic) state_ = state;
}

}  // namespace mtl
