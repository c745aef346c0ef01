// Update rules: how a step changes the parameters. A rule declares the states it keeps for every parameter, and uses
// them to update ranges of elements. A run's rules are chosen once, in its RunShape. Parameter memory, checkpoints,
// plans and the optimizer ask them, and name no rule themselves.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "comm/groups.h"
#include "device/memory.h"
#include "device/precision.h"
#include "kernels/update_rules.h"
#include "nn/param.h"

namespace mtl {

/// The kind of checkpoint tensors that hold parameters. The states of update rules have other kinds.
inline constexpr const char* kParamKind = "param";

/// A state: one number per parameter element.
struct StateSpec {
  std::string name;  // also the kind of its checkpoint tensors
  DType dtype = DType::f32;
  const char* title = "states";  // in tables for the user
};

class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  /// Returns its name, as in --optimizer.
  virtual const char* name() const = 0;
  /// Returns the states, with the dtypes that a run in this precision gives them. No other rule has a state of these
  /// names.
  virtual std::vector<StateSpec> states(const Precision& precision) const = 0;
  /// Returns true if the rule may update this parameter.
  virtual bool takes(const ParamSpec&) const { return true; }
  /// Returns what update() multiplies by in a step.
  virtual UpdateFactors factors(const StepInputs& step) const = 0;
  /// Updates a range in place.
  virtual void update(Stream& stream, const UpdateRange& range, StepState* step) const = 0;

  /// True if what an element changes by depends on its entire matrix. Then prepare() is called for all of a bucket's
  /// ranges, without params, and updates the states and replaces the gradients; transform() replaces these, for a whole
  /// parameter; and update() is called without states.
  virtual bool is_by_matrix() const { return false; }
  virtual void prepare(Stream&, const UpdateRange&, StepState*) const {}
  /// `part` is this rank's part of the parameter, in its layout. Collective over the ranks that share the parameter.
  virtual void transform(Stream&, Arena&, const ProcessGroups&, const ParamSpec&, Tensor) const {}
};

class AdamW : public UpdateRule {
 public:
  explicit AdamW(const AdamWOptions& options = {}) : options_(options) {}
  const char* name() const override { return "adam"; }
  std::vector<StateSpec> states(const Precision& precision) const override;
  UpdateFactors factors(const StepInputs& step) const override { return adamw_factors(step, options_); }
  void update(Stream& stream, const UpdateRange& range, StepState* step) const override {
    adamw_step(stream, range, options_, step);
  }

 private:
  AdamWOptions options_;
};

/// SGD with momentum.
class Sgd : public UpdateRule {
 public:
  explicit Sgd(double momentum) : momentum_(momentum) {}
  const char* name() const override { return "sgd"; }
  std::vector<StateSpec> states(const Precision& precision) const override;
  UpdateFactors factors(const StepInputs& step) const override { return sgd_factors(step); }
  void update(Stream& stream, const UpdateRange& range, StepState* step) const override {
    sgd_step(stream, range, momentum_, step);
  }

 private:
  double momentum_;
};

/// How a step changes a parameter. Parameters with equal traits can share a bucket.
struct UpdateTraits {
  int rule = 0;               // index into RuleSet::rules
  bool is_decoupled = false;  // its learning rate is StepInputs::decoupled_lr
  bool decays = true;         // weight decay applies

  /// Index into StepInputs::factors.
  int factors() const { return 2 * rule + (is_decoupled ? 1 : 0); }
  auto operator<=>(const UpdateTraits&) const = default;
};

/// The update rules of a run: one for all parameters, and perhaps a second one for those that it takes.
struct RuleSet {
  std::vector<std::shared_ptr<const UpdateRule>> rules = {};  // empty in evaluation, which updates nothing
  bool decouples = false;                                     // the token tables have a learning rate of their own

  bool empty() const { return rules.empty(); }
  UpdateTraits traits(const ParamSpec& spec) const;
  const UpdateRule& rule_of(const ParamSpec& spec) const { return *rules[traits(spec).rule]; }
  /// Sets the factors of a step, which its other inputs determine.
  void set_factors(StepInputs& inputs) const;
};

template <class Rule, class... Args>
RuleSet single_rule(Args&&... args) {
  return {{std::make_shared<Rule>(std::forward<Args>(args)...)}};
}

/// Returns every rule that may have written a checkpoint.
const std::vector<std::shared_ptr<const UpdateRule>>& known_rules();

}  // namespace mtl
