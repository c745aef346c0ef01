// Update rules: how a step changes the parameters. A rule declares the states it keeps for every parameter, and uses
// them to update ranges of elements. A run's rule is chosen once, in its RunShape. Parameter memory, checkpoints, plans
// and the optimizer ask it, and name no rule themselves.
#pragma once

#include <memory>
#include <string>
#include <string_view>
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

class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  /// Returns the states, with the dtypes that a run in this precision gives them. No other rule has a state of these
  /// names.
  virtual std::vector<StateSpec> states(const Precision& precision) const = 0;
  /// Returns what update() multiplies by in a step.
  virtual UpdateFactors factors(const StepInputs& step) const = 0;
  /// Updates a range in place.
  virtual void update(Stream& stream, const UpdateRange& range, StepState* step) const = 0;
};

/// Null in evaluation, which updates nothing.
using RulePtr = std::shared_ptr<const UpdateRule>;

class AdamW : public UpdateRule {
 public:
  explicit AdamW(const AdamWOptions& options = {}) : options_(options) {}
  std::vector<StateSpec> states(const Precision& precision) const override;
  UpdateFactors factors(const StepInputs& step) const override { return adamw_factors(step, options_); }
  void update(Stream& stream, const UpdateRange& range, StepState* step) const override {
    adamw_step(stream, range, options_, step);
  }

 private:
  AdamWOptions options_;
};

/// Returns every rule that may have written a checkpoint.
const std::vector<RulePtr>& known_rules();

}  // namespace mtl
