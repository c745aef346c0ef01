#include "optim/update_rule.h"

namespace mtl {

std::vector<StateSpec> AdamW::states(const Precision& precision) {
  return {{"exp_avg", precision.exp_avg}, {"exp_avg_sq", precision.exp_avg_sq}};
}

void AdamW::update(Stream& stream, const UpdateRange& range, StepState* step) const {
  require(range.states.size() == 2, "AdamW has two states, got ", range.states.size());
  adamw_step(stream,
             {.param = range.param,
              .grad = range.grad,
              .exp_avg = range.states[0],
              .exp_avg_sq = range.states[1],
              .decays = range.decays,
              .copy = range.copy,
              .rounding = range.rounding,
              .elements = range.elements},
             options, step);
}

std::vector<std::vector<StateSpec>> known_rule_states() { return {AdamW::states()}; }

}  // namespace mtl
