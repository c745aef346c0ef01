// Pipeline schedules: pure functions from (stages, stage, micro-batches) to the list of actions a stage executes.
//
// A stage holds one chunk of layers, or `chunks` of them when schedules are interleaved: a micro-batch then goes
// through chunk 0 of every stage, wraps around to chunk 1 of the first stage, and so on. In every schedule, a chunk's
// backwards are in the order of the micro-batches, so that gradients are summed in the same order.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "layout/layout.h"

namespace mtl {

/// `weight` computes the weight gradients that a backward deferred; in a schedule without weight actions, the backwards
/// compute these gradients.
enum class ActionKind { forward, backward, weight, receive_forward, send_forward, receive_backward, send_backward };

struct Action {
  ActionKind kind;
  int micro_batch;
  int chunk;  // index among the chunks of the acting stage
  bool operator==(const Action&) const = default;
};

/// GPipe (Huang et al. 2019): all forwards, then all backwards.
std::vector<Action> gpipe(int stages, int stage, int micro_batches);

/// 1F1B (Narayanan et al. 2021, figure 4): min(stages - stage - 1, m) forwards to warm up, then one forward and one
/// backward in turn, then the remaining backwards. With one stage: forward and backward in turn.
std::vector<Action> one_forward_one_backward(int stages, int stage, int micro_batches);

/// Interleaved 1F1B (Narayanan et al. 2021, section 2.2): `group` micro-batches (0: as many as stages) go through every
/// chunk before the next group starts; warm-up is interleaved_warmup() forwards. Throws Error(usage) like Megatron-LM:
/// for fewer than 2 stages or chunks, a group outside [stages, m], or m modulo group neither 0 nor at least `stages`.
std::vector<Action> interleaved(int stages, int stage, int chunks, int micro_batches, int group = 0);
/// Returns min(m * chunks, 2 (stages - stage - 1) + (chunks - 1) group).
int interleaved_warmup(int stages, int stage, int chunks, int micro_batches, int group);
/// Returns the order of forwards as (micro-batch, chunk); backwards have the same order with the chunks reversed.
std::vector<std::pair<int, int>> interleaved_order(int chunks, int micro_batches, int group);

/// Return the actions of one stage, or of every stage, in a step of `micro_batches`.
std::vector<Action> stage_schedule(const Layout& layout, int stage, int micro_batches);
std::vector<std::vector<Action>> pipeline_schedule(const Layout& layout, int micro_batches);
/// The actions of one stage in a step, and their properties.
struct StepSchedule {
  explicit StepSchedule(std::vector<Action> actions_of_step);
  std::vector<Action> actions;
  bool defers_weights = false;       // has weight actions
  std::vector<bool> ends_gradients;  // [action]: true for the last one that adds to its chunk's gradients
};
/// Returns the actions of layout.rank in a step, with communication.
StepSchedule rank_schedule(const Layout& layout, int micro_batches);

/// Return the largest number of micro-batches that are at once between their forward and their last action (backward or
/// weight): summed over all chunks, or in one chunk, which needs as many slots.
int max_in_flight(const std::vector<Action>& actions);
int max_in_flight(const std::vector<Action>& actions, int chunk);

/// Adds a stage's sends and receives: before each forward or backward the receive of its input, after it the send of
/// its output. The model's first chunk receives no activations and sends no gradients; its last chunk sends no
/// activations and receives no gradients. A receive blocks; a send returns at once, and blocks only when its buffer is
/// used again. From one rank to another there is a channel for activations and one for gradients (two stages of several
/// chunks use both); in each, receives match sends in order. One channel for both also works, unless two stages
/// interleave groups of more than two. No stage deadlocks if a channel can hold one unreceived send; if groups are
/// larger than the number of stages, it must hold group - stages + 1.
std::vector<Action> with_communication(const std::vector<Action>& actions, int stages, int stage, int chunks);

inline bool is_receive(ActionKind kind) {
  return kind == ActionKind::receive_forward || kind == ActionKind::receive_backward;
}

/// Returns the stage that a send goes to or a receive comes from. Throws for other actions.
int peer_stage(const Action& action, int stages, int stage);

/// Returns "F0 F1 B0 ..." for tests and drawings; "F0.1" with the chunk if there are several. W is weight; rF, sF, rB
/// and sB are receives and sends.
std::string schedule_text(const std::vector<Action>& actions);

}  // namespace mtl
