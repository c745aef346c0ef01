#include "layout/schedule_times.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "base/error.h"

namespace mtl {

ScheduleTimes schedule_times(const std::vector<std::vector<Action>>& stages, const Places& places,
                             const std::vector<ActionDurations>& durations) {
  constexpr double kUnknown = std::numeric_limits<double>::infinity();
  const bool defers_weights = std::ranges::any_of(stages, has_weights);
  ScheduleTimes out{.spans = std::vector<std::vector<TimeSpan>>(stages.size())};
  std::map<std::tuple<ActionKind, int, int>, double> ends;  // by kind, position and micro-batch

  // Runs the stage's next action, and returns true, if its inputs are ready.
  const auto advance = [&](std::size_t stage) {
    std::vector<TimeSpan>& spans = out.spans[stage];
    if (spans.size() == stages[stage].size()) return false;
    const Action& action = stages[stage][spans.size()];
    const int position = places.position_of({static_cast<int>(stage), action.chunk});
    const ActionDurations lasts = durations.empty() ? ActionDurations{} : durations[position];
    const auto end_of = [&](ActionKind kind, int at) {
      const auto found = ends.find({kind, at, action.micro_batch});
      return found == ends.end() ? kUnknown : found->second;
    };
    double start = spans.empty() ? 0 : spans.back().end, length = 0;
    if (action.kind == ActionKind::weight) length = lasts.weight;
    if (action.kind == ActionKind::forward) {
      length = lasts.forward;
      if (position > 0) start = std::max(start, end_of(ActionKind::forward, position - 1));
    } else if (action.kind == ActionKind::backward) {
      length = lasts.backward + (defers_weights ? 0 : lasts.weight);
      start = std::max(start, end_of(ActionKind::forward, position));
      if (position + 1 < places.count()) start = std::max(start, end_of(ActionKind::backward, position + 1));
    }
    if (start == kUnknown) return false;
    ends[{action.kind, position, action.micro_batch}] = start + length;
    spans.push_back({start, start + length});
    return true;
  };

  const std::size_t count = stages.size();
  for (bool has_progress = true; has_progress;) {
    has_progress = false;
    for (std::size_t i = 0; i < 2 * count; ++i) {  // ascending for forwards, then descending for backwards
      while (advance(i < count ? i : 2 * count - 1 - i)) has_progress = true;
    }
  }
  for (std::size_t stage = 0; stage < count; ++stage) {
    require(out.spans[stage].size() == stages[stage].size(), "stage ", stage, " deadlocks in its schedule");
    double work = 0;
    for (const TimeSpan& span : out.spans[stage]) work += span.end - span.start;
    out.ideal = std::max(out.ideal, work);
    if (!out.spans[stage].empty()) out.total = std::max(out.total, out.spans[stage].back().end);
  }
  return out;
}

}  // namespace mtl
