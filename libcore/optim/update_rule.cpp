#include "optim/update_rule.h"

namespace mtl {

const std::vector<StateSpec>& AdamW::states() {
  static const std::vector<StateSpec> kStates = {{"exp_avg"}, {"exp_avg_sq"}};
  return kStates;
}

void AdamW::update(Stream& stream, Tensor param, Tensor grad, std::span<const Tensor> states, bool decays,
                   const StepState* step) const {
  require(states.size() == AdamW::states().size(), "AdamW has two states, got ", states.size());
  adamw_step(stream, {param, grad, states[0], states[1], decays}, options, step);
}

std::vector<std::vector<StateSpec>> known_rule_states() { return {AdamW::states()}; }

}  // namespace mtl
