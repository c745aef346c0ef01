// Update rules. A rule declares which states it keeps for every parameter, and uses these states to update ranges of
// elements. Parameter stores, checkpoints and memory plans depend on a rule only through its states.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device/precision.h"
#include "kernels/adamw.h"

namespace mtl {

/// The kind of those tensors in a checkpoint that hold parameters. The states of update rules have other kinds.
inline constexpr const char* kParamKind = "param";

/// A state: one number for every element of a parameter.
struct StateSpec {
  std::string name;  // also the kind of its tensors in checkpoints
  DType dtype = DType::f32;
};

/// The operands of an update: flat ranges of equal length.
struct UpdateRange {
  Tensor param, grad;
  std::vector<Tensor> states;  // in the order of the rule's states()
  Tensor copy{};               // copy of param in the dtype that layers read; absent if layers read param
  bool decays = true;
  std::optional<PhiloxKey> rounding{};  // see AdamWRange::rounding
  ElementMap elements{};
};

struct AdamW {
  AdamWOptions options = {};

  static std::vector<StateSpec> states(const Precision& precision = kPrecisionFp32);
  /// Updates a range in place. Elements whose value, gradient and states are all 0 stay 0, because a range may include
  /// the gaps between parameters.
  void update(Stream& stream, const UpdateRange& range, StepState* step) const;
};

/// Returns the states of every rule that may have written a checkpoint: one list per rule.
std::vector<std::vector<StateSpec>> known_rule_states();

}  // namespace mtl
