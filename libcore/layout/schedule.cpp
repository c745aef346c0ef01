#include "layout/schedule.h"

#include <algorithm>
#include <set>

#include "base/count_of.h"
#include "base/error.h"
#include "layout/zero_bubble.h"

namespace mtl {

namespace {

/// Returns the number of micro-batches that pass through every chunk before the next ones start.
int group_of(const Layout& layout) { return layout.group == 0 ? layout.stages() : layout.group; }

/// Returns how many of its forwards a stage does before its first backward.
std::ptrdiff_t warmup(const Layout& layout, int stage, std::ptrdiff_t forwards) {
  if (layout.schedule == ScheduleKind::gpipe) return forwards;
  const int later = layout.stages() - stage - 1;  // stages
  const bool interleaves = layout.schedule == ScheduleKind::interleaved;
  return std::min<std::ptrdiff_t>(forwards, interleaves ? 2 * later + (layout.chunks - 1) * group_of(layout) : later);
}

}  // namespace

ScheduleKind find_schedule(std::string_view name) {
  const auto row = std::ranges::find(kSchedules, name, &ScheduleTraits::name);
  require(row != kSchedules.end(), "no schedule is named '", name, "'");
  return row->kind;
}

void check_micro_batches(const Layout& layout, std::int64_t micro_batches) {
  if (layout.schedule != ScheduleKind::interleaved) return;
  const int stages = layout.stages(), chunks = layout.chunks, group = group_of(layout);
  if (stages < 2 || chunks < 2)
    fail(Exit::usage, "an interleaved schedule needs at least 2 stages and 2 chunks per stage, not ",
         count_of(stages, "stage"), " and ", count_of(chunks, "chunk"), "; choose the schedule 1f1b");
  if (group < stages || group > micro_batches) {
    fail(Exit::usage, "an interleaved schedule cannot divide ", micro_batches,
         micro_batches == 1 ? " micro-batch" : " micro-batches", " into groups of ", group,
         micro_batches < stages ? cat("; use at least ", stages, " micro-batches, one for each stage")
                                : cat("; use groups of ", stages, " (the number of stages) to ", micro_batches));
  }
  const std::int64_t last_group = micro_batches % group;
  if (last_group != 0 && last_group < stages) {
    fail(Exit::usage, micro_batches, " micro-batches in groups of ", group, " leave a last group of ", last_group,
         ", fewer than the ", stages, " stages; use a number of micro-batches that is a multiple of ", group);
  }
}

std::vector<Action> stage_schedule(const Layout& layout, int stage, int micro_batches, std::optional<int> largest) {
  require(stage >= 0 && stage < layout.stages() && micro_batches >= 1, "no such stage or no micro-batch");
  require(layout.chunks == 1 || traits_of(layout.schedule).chunks != 1, "the schedule cannot have several chunks");
  if (defers_weights(layout.schedule)) return pipeline_schedule(layout, micro_batches, largest)[stage];
  check_micro_batches(layout, micro_batches);
  std::vector<Action> forwards, backwards;
  const int group = group_of(layout);
  for (int begin = 0; begin < micro_batches; begin += group) {
    const int end = std::min(begin + group, micro_batches);
    for (int chunk = 0; chunk < layout.chunks; ++chunk) {
      for (int m = begin; m < end; ++m) {
        forwards.push_back({.kind = ActionKind::forward, .micro_batch = m, .chunk = chunk});
        backwards.push_back({.kind = ActionKind::backward, .micro_batch = m, .chunk = layout.chunks - 1 - chunk});
      }
    }
  }
  const std::ptrdiff_t ahead = warmup(layout, stage, std::ssize(forwards));
  std::vector<Action> actions(forwards.begin(), forwards.begin() + ahead);
  for (std::ptrdiff_t i = 0; i < std::ssize(backwards); ++i) {
    if (i + ahead < std::ssize(forwards)) actions.push_back(forwards[i + ahead]);
    actions.push_back(backwards[i]);
  }
  return actions;
}

namespace {

/// Returns how many micro-batches a zero-bubble schedule may keep in each place.
std::vector<int> most_in_flight(const Layout& layout, std::optional<int> largest) {
  const Places places = layout.places();
  // As many as 1F1B keeps on the first stage, or nearly twice as many.
  const int most = layout.schedule == ScheduleKind::zero_bubble_2 ? 2 * places.stages - 1 : places.stages;
  std::vector<int> out(static_cast<std::size_t>(places.count()), most);
  if (!largest) return out;
  const std::vector<std::vector<Action>> stages = pipeline_schedule(layout, *largest);
  for (int position = 0; position < places.count(); ++position)
    out[position] = max_in_flight(stages[places.at(position).stage], places.at(position).chunk);
  return out;
}

}  // namespace

std::vector<std::vector<Action>> pipeline_schedule(const Layout& layout, int micro_batches,
                                                   std::optional<int> largest) {
  if (largest == micro_batches) largest.reset();
  if (defers_weights(layout.schedule)) {
    const std::vector<ActionDurations> equal(static_cast<std::size_t>(layout.places().count()));
    return zero_bubble(layout.places(), layout.durations.empty() ? equal : layout.durations,
                       most_in_flight(layout, largest), micro_batches);
  }
  std::vector<std::vector<Action>> out;
  for (int stage = 0; stage < layout.stages(); ++stage) out.push_back(stage_schedule(layout, stage, micro_batches));
  return out;
}

StepSchedule rank_schedule(const Layout& layout, int micro_batches, std::optional<int> largest) {
  return rank_schedule(layout, stage_schedule(layout, layout.stage(), micro_batches, largest));
}

StepSchedule rank_schedule(const Layout& layout, const std::vector<Action>& of_stage) {
  StepSchedule schedule(with_communication(of_stage, layout.places(), layout.stage()));
  schedule.unreceived = layout.places().arrangement == Arrangement::vee
                            ? layout.stages()
                            : 1 + std::max(layout.group - layout.stages(), 0);
  return schedule;
}

StepSchedule counting_schedule(const Layout& layout, int micro_batches) {
  std::vector<Action> actions;
  for (int m = 0; m < micro_batches; ++m) {
    for (int chunk = 0; chunk < layout.chunks; ++chunk) actions.push_back({ActionKind::forward, m, chunk});
    for (int chunk = layout.chunks; chunk-- > 0;) {
      actions.push_back({ActionKind::backward, m, chunk});
      if (defers_weights(layout.schedule)) actions.push_back({ActionKind::weight, m, chunk});
    }
  }
  return StepSchedule(with_communication(actions, layout.places(), layout.stage()));
}

bool has_weights(const std::vector<Action>& actions) {
  return std::ranges::find(actions, ActionKind::weight, &Action::kind) != actions.end();
}

StepSchedule::StepSchedule(std::vector<Action> actions_of_step)
    : actions(std::move(actions_of_step)), defers_weights(has_weights(actions)), ends_gradients(actions.size(), false) {
  const ActionKind last = defers_weights ? ActionKind::weight : ActionKind::backward;
  std::set<int> ended;  // chunks whose last such action we have found
  for (std::size_t i = actions.size(); i-- > 0;)
    ends_gradients[i] = actions[i].kind == last && ended.insert(actions[i].chunk).second;
}

int max_in_flight(const std::vector<Action>& actions, std::optional<int> chunk) {
  int in_flight = 0, largest = 0;
  const ActionKind last = has_weights(actions) ? ActionKind::weight : ActionKind::backward;
  for (const Action& action : actions) {
    if (chunk && action.chunk != *chunk) continue;
    in_flight += int(action.kind == ActionKind::forward) - int(action.kind == last);
    largest = std::max(largest, in_flight);
  }
  return largest;
}

std::vector<Action> with_communication(const std::vector<Action>& actions, const Places& places, int stage) {
  std::vector<Action> out;
  std::vector<std::array<int, 3>> done(static_cast<std::size_t>(places.count()));  // by position and kind
  for (const Action& action : actions) {
    auto add_if = [&](bool condition, ActionKind kind) {
      if (condition) out.push_back({kind, action.micro_batch, action.chunk});
    };
    const Place place{stage, action.chunk};
    const bool has_previous = !places.begins_model(place) && !places.turns_before(place),
               has_next = !places.ends_model(place) && !places.turns_after(place);
    require(action.kind <= ActionKind::weight, "the actions already include communication");
    const int position = places.position_of(place);
    const auto has = [&](ActionKind kind, int at) { return done[at][enum_index(kind)] > action.micro_batch; };
    const bool is_forward = action.kind == ActionKind::forward, is_weight = action.kind == ActionKind::weight;
    require(is_forward ? !places.turns_before(place) || has(action.kind, position - 1)
                       : has(ActionKind::forward, position) &&
                             (is_weight || !places.turns_after(place) || has(action.kind, position + 1)),
            "stage ", stage, " deadlocks in its schedule");
    ++done[position][enum_index(action.kind)];
    add_if(!is_weight && (is_forward ? has_previous : has_next),
           is_forward ? ActionKind::receive_forward : ActionKind::receive_backward);
    out.push_back(action);
    add_if(!is_weight && (is_forward ? has_next : has_previous),
           is_forward ? ActionKind::send_forward : ActionKind::send_backward);
  }
  return out;
}

int peer_stage(const Action& action, const Places& places, int stage) {
  require(action.kind > ActionKind::weight, "only sends and receives have a peer stage");
  const bool next = action.kind == ActionKind::send_forward || action.kind == ActionKind::receive_backward;
  return places.at(places.position_of({stage, action.chunk}) + (next ? 1 : -1)).stage;
}

}  // namespace mtl
