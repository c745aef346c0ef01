// Pipeline schedules: pure functions that turn (stages, stage, micro-batches) into the list of actions that a stage
// executes.
//
// A stage holds one chunk of layers or, if the schedule is interleaved, `chunks` chunks. With interleaving, a
// micro-batch goes through chunk 0 on every stage, then through chunk 1 on every stage, and so on. In every schedule, a
// chunk executes its backwards in micro-batch order, so all schedules sum gradients in the same order.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "layout/layout.h"

namespace mtl {

/// The action `weight` computes the weight gradients that a backward deferred. In a schedule without weight actions,
/// each backward computes its own weight gradients.
enum class ActionKind { forward, backward, weight, receive_forward, send_forward, receive_backward, send_backward };

struct Action {
  ActionKind kind;
  int micro_batch;
  int chunk;  // chunk index within the stage
  bool operator==(const Action&) const = default;
};

/// GPipe (Huang et al. 2019): all forwards, then all backwards.
std::vector<Action> gpipe(int stages, int stage, int micro_batches);

/// 1F1B (Narayanan et al. 2021, figure 4). For m micro-batches: min(stages - stage - 1, m) warm-up forwards, then
/// alternating forwards and backwards, then the remaining backwards. A single stage has no warm-up.
std::vector<Action> one_forward_one_backward(int stages, int stage, int micro_batches);

/// Interleaved 1F1B (Narayanan et al. 2021, section 2.2). Micro-batches are processed in groups of `group` (0: the
/// number of stages): all micro-batches in a group go through every chunk before the next group starts. The warm-up
/// consists of interleaved_warmup() forwards. As in Megatron-LM, throws Error(usage) if there are fewer than 2 stages
/// or fewer than 2 chunks, if `group` is not in [stages, m], or if m modulo `group` is neither 0 nor at least `stages`.
std::vector<Action> interleaved(int stages, int stage, int chunks, int micro_batches, int group = 0);
/// Returns the number of warm-up forwards: min(m * chunks, 2 (stages - stage - 1) + (chunks - 1) group).
int interleaved_warmup(int stages, int stage, int chunks, int micro_batches, int group);
/// Returns all forwards, in order, as pairs (micro-batch, chunk). Backwards have the same order, but with the chunks
/// reversed.
std::vector<std::pair<int, int>> interleaved_order(int chunks, int micro_batches, int group);

/// Return the actions of one stage or of all stages in a step with `micro_batches` micro-batches, without
/// communication.
std::vector<Action> stage_schedule(const Layout& layout, int stage, int micro_batches);
std::vector<std::vector<Action>> pipeline_schedule(const Layout& layout, int micro_batches);
/// One stage's actions in a step, and properties derived from them.
struct StepSchedule {
  explicit StepSchedule(std::vector<Action> actions_of_step);
  std::vector<Action> actions;
  bool defers_weights = false;       // true if there are weight actions
  std::vector<bool> ends_gradients;  // by action: true for the last one that adds to its chunk's gradients
};
/// Returns the actions of layout.rank in a step, including communication.
StepSchedule rank_schedule(const Layout& layout, int micro_batches);

/// Return the maximum number of micro-batches in flight at the same time. A micro-batch is in flight from its forward
/// to its last action (backward or weight). The first overload counts micro-batches in all chunks. The second counts
/// only those in `chunk`, which needs this number of slots.
int max_in_flight(const std::vector<Action>& actions);
int max_in_flight(const std::vector<Action>& actions, int chunk);

/// Adds the stage's sends and receives to `actions`. Each forward or backward is preceded by the receive for its input
/// and followed by the send of its output. The model's first chunk receives no activations and sends no gradients. The
/// model's last chunk sends no activations and receives no gradients.
///
/// A receive blocks. A send returns immediately; only the next use of its buffer blocks until the send is complete.
/// From each rank to another, there is one channel for activations and one for gradients. (With only two stages but
/// multiple chunks, a rank sends both to the same rank.) Within a channel, receives match sends in order. A single
/// channel for both also works, unless two stages interleave groups of more than two micro-batches. To avoid deadlock,
/// a channel must be able to hold one unreceived message or, if groups are larger than the number of stages, group -
/// stages + 1 messages.
std::vector<Action> with_communication(const std::vector<Action>& actions, int stages, int stage, int chunks);

inline bool is_receive(ActionKind kind) {
  return kind == ActionKind::receive_forward || kind == ActionKind::receive_backward;
}

/// Returns a send's destination or a receive's source, as a stage. Throws for all other actions.
int peer_stage(const Action& action, int stages, int stage);

/// Returns text such as "F0 F1 B0 ...", for tests and drawings. With multiple chunks, each word also contains the
/// chunk: "F0.1". F is a forward, B a backward, and W a weight action. rF and sF receive and send activations; rB and
/// sB receive and send gradients.
std::string schedule_text(const std::vector<Action>& actions);

}  // namespace mtl
