// How parameters change. An update rule names the states that it keeps of every parameter and updates a range of
// elements with them; stores, checkpoints and plans take what they need to know of a rule from its states.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "device/dtype.h"
#include "kernels/adamw.h"

namespace mtl {

/// The kind of a checkpoint's tensors that are the parameters themselves; a rule's states have kinds of their own.
inline constexpr const char* kParamKind = "param";

/// One number that a rule keeps of every element of a parameter.
struct StateSpec {
  std::string name;  // its kind in checkpoints
  DType dtype = DType::f32;
};

struct AdamW {
  AdamWOptions options = {};

  static const std::vector<StateSpec>& states();
  /// Updates a flat range of elements in place; `states` are as in states(). Zeros stay zeros where their gradients and
  /// states are: ranges may have gaps between parameters.
  void update(Stream& stream, Tensor param, Tensor grad, std::span<const Tensor> states, bool decays,
              const StepState* step) const;
};

/// The states of the rules that checkpoints may hold, a list for each rule.
std::vector<std::vector<StateSpec>> known_rule_states();

}  // namespace mtl
