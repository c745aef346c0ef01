// The operands of an update rule's step over a flat range of parameters.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "device/philox.h"
#include "device/tensor.h"

namespace mtl {

/// Maps a range's elements to their indices in the entire tensor: element i has index first + (j / inner) * pitch + j %
/// inner, where j = skipped + i. In other words, the range contains `inner` out of every `pitch` elements.
struct ElementMap {
  std::int64_t first = 0, inner = 1, pitch = 1, skipped = 0;
};

/// Flat tensors of n elements each. Each may have a different dtype (f32, bf16, f16).
struct UpdateRange {
  Tensor param, grad;
  std::vector<Tensor> states;           // in the order of the rule's states
  Tensor copy{};                        // param in the compute dtype; absent if layers read param itself
  int factors = 0;                      // index into StepInputs::factors
  bool decays = true;                   // weight decay applies
  std::optional<PhiloxKey> rounding{};  // if given, rounds a bf16 param stochastically
  ElementMap elements{};                // for the rounding
};

}  // namespace mtl
