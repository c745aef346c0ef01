// Update rules. A rule declares the states it keeps for every parameter, and uses them to update ranges of elements.
// Parameter stores, checkpoints and memory plans know only the states, which they are given. Whoever gives them names
// AdamW, the only rule, by type, and so does the optimizer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device/precision.h"
#include "kernels/adamw.h"

namespace mtl {

/// The kind of checkpoint tensors that hold parameters. The states of update rules have other kinds.
inline constexpr const char* kParamKind = "param";

/// A state: one number per parameter element.
struct StateSpec {
  std::string name;  // also the kind of its checkpoint tensors
  DType dtype = DType::f32;
};

/// An update's operands: flat ranges of equal length.
struct UpdateRange {
  Tensor param, grad;
  std::vector<Tensor> states;  // in the order of the rule's states()
  Tensor copy{};               // a copy of param in the dtype that layers read; absent if layers read param
  bool decays = true;
  std::optional<PhiloxKey> rounding{};  // see AdamWRange::rounding
  ElementMap elements{};
};

struct AdamW {
  AdamWOptions options = {};

  static std::vector<StateSpec> states(const Precision& precision = kPrecisionFp32);
  /// Updates a range in place.
  void update(Stream& stream, const UpdateRange& range, StepState* step) const;
};

/// Returns the states of every rule that may have written a checkpoint, one list per rule.
std::vector<std::vector<StateSpec>> known_rule_states();

}  // namespace mtl
