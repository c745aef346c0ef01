// The loss scale of fp16, without which small gradients would underflow: it multiplies the gradient of the loss, and
// the norm and the update divide by it. An fp32 factor, as in Megatron-LM:
//
//   constant  never changes; 1 for every precision but fp16
//   dynamic   from the hysteresis-th overflow since the last growth on, each overflow multiplies the scale by
//             backoff_factor, down to min_scale. After `window` updates in a row without an overflow, the scale is
//             multiplied by growth_factor, and the count of overflows starts again.
//
// Unlike Megatron-LM's, the scale does not grow beyond fp32's range.
#pragma once

#include <cstdint>

namespace mtl {

class GradScaler {
 public:
  struct Options {
    bool is_dynamic = false;
    float initial_scale = 1;  // of a dynamic scale, or the constant scale
    float min_scale = 1, growth_factor = 2, backoff_factor = 0.5F;
    std::int64_t window = 1000, hysteresis = 2;
  };
  /// The state that checkpoints hold.
  struct State {
    float scale;
    std::int64_t growth_tracker;      // updates without an overflow since the last one or the last growth
    std::int64_t hysteresis_tracker;  // overflows until the scale falls; at 0 or below, each one lowers it
    bool operator==(const State&) const = default;
  };

  GradScaler() : GradScaler(Options()) {}
  explicit GradScaler(const Options& options)
      : options_(options),
        state_{.scale = options.initial_scale, .growth_tracker = 0, .hysteresis_tracker = options.hysteresis} {}

  float scale() const { return state_.scale; }
  bool is_dynamic() const { return options_.is_dynamic; }
  /// Call after every step. `found_inf`: the gradient's norm was not finite.
  void update(bool found_inf);
  /// True if the last update was an overflow that should have lowered the scale, but the scale was at its minimum
  /// already.
  bool is_exhausted() const { return is_exhausted_; }

  const State& state() const { return state_; }
  /// Continues from the state of a dynamic scaler. Has no effect on a constant one.
  void restore(const State& state);

 private:
  Options options_;
  State state_;
  bool is_exhausted_ = false;
};

}  // namespace mtl
