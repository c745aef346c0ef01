// Pipeline schedules: pure functions from (stages, stage, micro-batches) to the list of actions a stage executes.
#pragma once

#include <string>
#include <vector>

namespace mtl {

enum class ActionKind { forward, backward };

struct Action {
  ActionKind kind;
  int micro_batch;
  int chunk;
  bool operator==(const Action&) const = default;
};

/// 1F1B (Narayanan et al. 2021, figure 4): min(stages - stage - 1, m) forwards to warm up, then one forward and one
/// backward in turn, then the backwards that are left. With one stage: forward and backward in turn.
std::vector<Action> one_forward_one_backward(int stages, int stage, int micro_batches);

/// The largest number of micro-batches between their forward and their backward: how many slots a chunk needs.
int max_in_flight(const std::vector<Action>& actions);

/// "F0 F1 B0 ..." for tests and drawings.
std::string schedule_text(const std::vector<Action>& actions);

}  // namespace mtl
