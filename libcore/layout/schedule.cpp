#include "layout/schedule.h"

#include <algorithm>

#include "base/error.h"

namespace mtl {

std::vector<Action> one_forward_one_backward(int stages, int stage, int micro_batches) {
  require(stages >= 1 && stage >= 0 && stage < stages && micro_batches >= 1, "no such stage or no micro-batch");
  int warmup = std::min(stages - stage - 1, micro_batches);
  std::vector<Action> actions;
  for (int m = 0; m < warmup; ++m) actions.push_back({ActionKind::forward, m, 0});
  for (int m = warmup; m < micro_batches; ++m) {
    actions.push_back({ActionKind::forward, m, 0});
    actions.push_back({ActionKind::backward, m - warmup, 0});
  }
  for (int m = micro_batches - warmup; m < micro_batches; ++m) actions.push_back({ActionKind::backward, m, 0});
  return actions;
}

int max_in_flight(const std::vector<Action>& actions) {
  int now = 0, most = 0;
  for (const Action& action : actions) {
    now += action.kind == ActionKind::forward ? 1 : -1;
    most = std::max(most, now);
  }
  return most;
}

std::string schedule_text(const std::vector<Action>& actions) {
  std::vector<std::string> words;
  for (const Action& action : actions)
    words.push_back(cat(action.kind == ActionKind::forward ? "F" : "B", action.micro_batch));
  return join(words, " ");
}

}  // namespace mtl
