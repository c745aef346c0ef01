// fp16's loss scale, which keeps small gradients from underflowing. The gradient of the loss is multiplied by the
// scale, and the gradient norm and the update divide by it. The scale is an fp32 factor. As in Megatron-LM, it is
// either constant or dynamic:
//
//   constant  never changes; 1 for every precision except fp16.
//   dynamic   the first hysteresis - 1 overflows since the last growth have no effect. Each later overflow multiplies
//             the scale by backoff_factor, but never below min_scale. After `window` consecutive updates without an
//             overflow, the scale is multiplied by growth_factor, and we start counting overflows again.
//
// Unlike in Megatron-LM, the scale never grows beyond the fp32 range.
#pragma once

#include <cstdint>

namespace mtl {

class GradScaler {
 public:
  struct Options {
    bool is_dynamic = false;
    float initial_scale = 1;  // initial value of a dynamic scale; value of a constant scale
    float min_scale = 1, growth_factor = 2, backoff_factor = 0.5F;
    std::int64_t window = 1000, hysteresis = 2;
  };
  /// The state that checkpoints contain.
  struct State {
    float scale;
    std::int64_t growth_tracker;      // updates since the last overflow or growth
    std::int64_t hysteresis_tracker;  // overflows left until the scale falls; at 0 or below, each overflow lowers it
    bool operator==(const State&) const = default;
  };

  GradScaler() : GradScaler(Options()) {}
  explicit GradScaler(const Options& options)
      : options_(options),
        state_{.scale = options.initial_scale, .growth_tracker = 0, .hysteresis_tracker = options.hysteresis} {}

  float scale() const { return state_.scale; }
  bool is_dynamic() const { return options_.is_dynamic; }
  /// Must be called after every step. `found_inf` is true if the gradient norm was not finite.
  void update(bool found_inf);
  /// True if the last update overflowed and should have lowered the scale, but the scale was already at its minimum.
  bool is_exhausted() const { return is_exhausted_; }

  const State& state() const { return state_; }
  /// Restores a dynamic scaler's state. Does nothing if the scale is constant.
  void restore(const State& state);

 private:
  Options options_;
  State state_;
  bool is_exhausted_ = false;
};

}  // namespace mtl
