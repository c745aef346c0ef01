// How parameters change. An update rule names the states that it keeps of every parameter and updates a range of
// elements with them; stores, checkpoints and plans take what they need to know of a rule from its states.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device/precision.h"
#include "kernels/adamw.h"

namespace mtl {

/// The kind of a checkpoint's tensors that are the parameters themselves; a rule's states have kinds of their own.
inline constexpr const char* kParamKind = "param";

/// One number that a rule keeps of every element of a parameter.
struct StateSpec {
  std::string name;  // its kind in checkpoints
  DType dtype = DType::f32;
};

/// Flat ranges of elements, as many of each.
struct UpdateRange {
  Tensor param, grad;
  std::vector<Tensor> states;  // as the rule's states()
  Tensor copy{};               // of param, as layers read it; left out where they read param itself
  bool decays = true;
  std::optional<PhiloxKey> rounding{};  // AdamWRange::rounding
  ElementMap elements{};
};

struct AdamW {
  AdamWOptions options = {};

  static std::vector<StateSpec> states(const Precision& precision = kPrecisionFp32);
  /// Updates a range in place. Zeros stay zeros where their gradients and states are: ranges may have gaps between
  /// parameters.
  void update(Stream& stream, const UpdateRange& range, StepState* step) const;
};

/// The states of the rules that checkpoints may hold, a list for each rule.
std::vector<std::vector<StateSpec>> known_rule_states();

}  // namespace mtl
