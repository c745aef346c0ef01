// Update rules. A rule declares the states that it keeps for every parameter, and uses them to update ranges of
// elements. Stores, checkpoints and plans depend on a rule only through its states.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device/precision.h"
#include "kernels/adamw.h"

namespace mtl {

/// The kind of a checkpoint's tensors that hold parameters; a rule's states have other kinds.
inline constexpr const char* kParamKind = "param";

/// A state: one number for every element of a parameter.
struct StateSpec {
  std::string name;  // also the kind in checkpoints
  DType dtype = DType::f32;
};

/// The operands of an update: flat ranges of equal length.
struct UpdateRange {
  Tensor param, grad;
  std::vector<Tensor> states;  // as the rule's states()
  Tensor copy{};               // of param, in the layers' dtype; absent if layers read param itself
  bool decays = true;
  std::optional<PhiloxKey> rounding{};  // AdamWRange::rounding
  ElementMap elements{};
};

struct AdamW {
  AdamWOptions options = {};

  static std::vector<StateSpec> states(const Precision& precision = kPrecisionFp32);
  /// Updates a range in place. Elements whose value, gradient and states are 0 stay 0, because ranges may have gaps
  /// between parameters.
  void update(Stream& stream, const UpdateRange& range, StepState* step) const;
};

/// Returns the states of all rules that checkpoints may hold, one list per rule.
std::vector<std::vector<StateSpec>> known_rule_states();

}  // namespace mtl
