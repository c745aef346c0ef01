#include "optim/update_rule.h"

#include "optim/muon.h"

namespace mtl {

std::vector<StateSpec> AdamW::states(const Precision& precision) const {
  return {{"exp_avg", precision.exp_avg, "first moments"}, {"exp_avg_sq", precision.exp_avg_sq, "second moments"}};
}

std::vector<StateSpec> Sgd::states(const Precision& precision) const {
  return {{"momentum_buffer", precision.exp_avg, "momentum"}};
}

UpdateTraits RuleSet::traits(const ParamSpec& spec) const {
  const bool is_second = rules.size() > 1 && rules[1]->takes(spec);
  return {.rule = is_second ? 1 : 0,
          .is_decoupled = decouples && spec.use == ParamUse::token_table,
          .decays = spec.decays()};
}

void RuleSet::set_factors(StepInputs& inputs) const {
  StepInputs decoupled = inputs;
  decoupled.lr = inputs.decoupled_lr;
  for (std::size_t rule = 0; rule < rules.size(); ++rule) {
    inputs.factors[2 * rule] = rules[rule]->factors(inputs);
    inputs.factors[2 * rule + 1] = rules[rule]->factors(decoupled);
  }
}

const std::vector<std::shared_ptr<const UpdateRule>>& known_rules() {
  static const std::vector<std::shared_ptr<const UpdateRule>> rules = {
      std::make_shared<AdamW>(), std::make_shared<Sgd>(0), std::make_shared<Muon>(MuonRuleOptions())};
  return rules;
}

}  // namespace mtl
