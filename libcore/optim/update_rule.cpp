#include "optim/update_rule.h"

namespace mtl {

std::vector<StateSpec> AdamW::states(const Precision& precision) const {
  return {{"exp_avg", precision.exp_avg}, {"exp_avg_sq", precision.exp_avg_sq}};
}

const std::vector<RulePtr>& known_rules() {
  static const std::vector<RulePtr> rules = {std::make_shared<AdamW>()};
  return rules;
}

}  // namespace mtl
