// Pipeline schedules: pure functions that turn a layout and a number of micro-batches into a list of actions for each
// stage.
//
// A stage holds one chunk of layers or, in interleaved and V schedules, several. A micro-batch then passes through
// chunk 0 on every stage, then through chunk 1 on every stage, and so on (layout/place.h). All schedules execute a
// chunk's backwards in micro-batch order, so they all sum gradients in the same order.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "base/enum_index.h"
#include "layout/layout.h"

namespace mtl {

/// A row of the table of schedules.
struct ScheduleTraits {
  ScheduleKind kind;
  std::string_view name;        // in flags and reports
  int chunks = 1;               // per stage; 0: any number from 2
  bool defers_weights = false;  // has weight actions
};
/// In the order of ScheduleKind.
inline constexpr auto kSchedules = std::to_array<ScheduleTraits>({{ScheduleKind::gpipe, "gpipe"},
                                                                  {ScheduleKind::one_forward_one_backward, "1f1b"},
                                                                  {ScheduleKind::interleaved, "interleaved", 0},
                                                                  {ScheduleKind::zero_bubble_1, "zb-h1", 1, true},
                                                                  {ScheduleKind::zero_bubble_2, "zb-h2", 1, true},
                                                                  {ScheduleKind::zero_bubble_v, "zb-v", 2, true}});
constexpr const ScheduleTraits& traits_of(ScheduleKind kind) { return kSchedules.at(enum_index(kind)); }
constexpr std::string_view schedule_name(ScheduleKind kind) { return traits_of(kind).name; }
/// Returns the schedule with this name. Throws Error(failure) if there is none.
ScheduleKind find_schedule(std::string_view name);

/// A `weight` action computes the weight gradients that a backward deferred. In schedules without such actions, each
/// backward computes its own weight gradients.
enum class ActionKind { forward, backward, weight, receive_forward, send_forward, receive_backward, send_backward };

struct Action {
  ActionKind kind;
  int micro_batch;
  int chunk;  // index within the stage
  bool operator==(const Action&) const = default;
};

/// Returns true if the schedule has weight actions.
constexpr bool defers_weights(ScheduleKind kind) { return traits_of(kind).defers_weights; }
/// Throws Error(usage) if the layout's schedule cannot run a step with `micro_batches` micro-batches: as in
/// Megatron-LM, an interleaved one if there are fewer than 2 stages or fewer than 2 chunks, if a group has less than
/// one micro-batch per stage or more than the step, or if the last group has less than one per stage.
void check_micro_batches(const Layout& layout, std::int64_t micro_batches);
/// Return the actions for one stage or for all stages in a step with `micro_batches` micro-batches, without
/// communication. In a run whose steps differ, `largest` is the number of micro-batches in the largest: no place then
/// keeps more micro-batches than in that step, for which its memory is planned. Throw what check_micro_batches()
/// throws.
///
/// Schedules with weight actions are found by zero_bubble(). In the others, a stage starts with a warm-up of forwards,
/// then alternates forwards and backwards, then runs the remaining backwards. The warm-up has at most
///   GPipe (Huang et al. 2019): all forwards
///   1F1B (Narayanan et al. 2021, figure 4): stages - stage - 1
///   interleaved 1F1B (section 2.2 there): 2 (stages - stage - 1) + (chunks - 1) group
/// Micro-batches pass in groups (Layout::group) through every chunk before the next group starts, and back in the same
/// order, but with the chunks reversed.
std::vector<Action> stage_schedule(const Layout& layout, int stage, int micro_batches, std::optional<int> largest = {});
std::vector<std::vector<Action>> pipeline_schedule(const Layout& layout, int micro_batches,
                                                   std::optional<int> largest = {});
/// A stage's actions in one step, and properties derived from them.
struct StepSchedule {
  explicit StepSchedule(std::vector<Action> actions_of_step);
  std::vector<Action> actions;
  bool defers_weights = false;       // true if there are weight actions
  std::vector<bool> ends_gradients;  // by action: true for the last to add to its chunk's gradients
  int unreceived = 1;                // how many sent messages of a channel must fit in it before one is received
};
/// Returns the actions for layout.rank in a step, including communication. With `of_stage`, adds the communication to
/// these actions of stage_schedule() or pipeline_schedule(), which take long to plan for many stages.
StepSchedule rank_schedule(const Layout& layout, int micro_batches, std::optional<int> largest = {});
StepSchedule rank_schedule(const Layout& layout, const std::vector<Action>& of_stage);

/// Returns a schedule with the kinds of actions of layout.rank, in which each micro-batch passes through all chunks and
/// back before the next begins. It is for counting the work of a step by the work of one or two micro-batches: unlike
/// rank_schedule(), it has no least number of micro-batches. Ranks that run it together would deadlock.
StepSchedule counting_schedule(const Layout& layout, int micro_batches);

/// Returns how many micro-batches are in flight at the same time, at most. A micro-batch is in flight from its forward
/// to its last action (backward or weight). With `chunk`, counts only micro-batches in this chunk, which needs this
/// number of slots.
int max_in_flight(const std::vector<Action>& actions, std::optional<int> chunk = {});

/// Returns true if there are weight actions.
bool has_weights(const std::vector<Action>& actions);

/// Adds the stage's sends and receives to `actions`. Before each forward or backward, the stage receives its input.
/// After it, the stage sends its output. The model's first chunk receives no activations and sends no gradients. The
/// model's last chunk sends no activations and receives no gradients. Consecutive chunks of one stage exchange no
/// messages. Throws Error(failure) if an action comes before one of the same stage whose output it needs; each place
/// does micro-batches in order.
///
/// A receive blocks. A send returns immediately, and only the next use of its buffer blocks until the send is complete.
/// Activations and gradients have a channel each (comm/channel.h). Within a channel, receives match sends in order. If
/// two stages interleave groups of more than two micro-batches, a rank receives both from the same rank, in another
/// order than they are sent in.
///
/// To avoid deadlock, a channel must be able to hold one unreceived message. If groups are larger than the number of
/// stages, it must be able to hold group - stages + 1 messages, because the first stage is still working on a group
/// when the first results arrive from the last stage. In a V, two stages may wait for each other to receive gradients
/// unless a channel can hold as many as there are stages. No more can be unreceived: a micro-batch enters a place when
/// the place that receives its gradient has finished all but so many before it.
std::vector<Action> with_communication(const std::vector<Action>& actions, const Places& places, int stage);

inline bool is_receive(ActionKind kind) {
  return kind == ActionKind::receive_forward || kind == ActionKind::receive_backward;
}

/// Returns the stage that a send of `stage` goes to or a receive comes from. Throws for all other actions.
int peer_stage(const Action& action, const Places& places, int stage);

}  // namespace mtl
