#include "layout/schedule_times.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"

namespace mtl {

namespace {

/// Simulates all stages together.
class Simulation {
 public:
  Simulation(const std::vector<std::vector<Action>>& stages, const Places& places,
             const std::vector<ActionDurations>& durations)
      : stages_(stages), places_(places), durations_(durations) {
    for (const std::vector<Action>& actions : stages) {
      for (const Action& action : actions) defers_weights_ = defers_weights_ || action.kind == ActionKind::weight;
    }
    if (durations.empty()) durations_.resize(static_cast<std::size_t>(places.count()));
    out_.spans.resize(stages.size());
  }

  ScheduleTimes run() {
    const std::size_t count = stages_.size();
    for (bool has_progress = true; has_progress;) {
      has_progress = false;
      for (std::size_t i = 0; i < 2 * count; ++i) {  // ascending for forwards, then descending for backwards
        while (advance(i < count ? i : 2 * count - 1 - i)) has_progress = true;
      }
    }
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      require(out_.spans[stage].size() == stages_[stage].size(), "stage ", stage, " deadlocks in its schedule");
      double work = 0;
      for (const TimeSpan& span : out_.spans[stage]) work += span.end - span.start;
      out_.ideal = std::max(out_.ideal, work);
      if (!out_.spans[stage].empty()) out_.total = std::max(out_.total, out_.spans[stage].back().end);
    }
    return out_;
  }

 private:
  using Key = std::pair<int, int>;  // (position, micro-batch)

  /// Runs the stage's next action and returns true if its inputs are ready.
  bool advance(std::size_t stage) {
    std::size_t done = out_.spans[stage].size();
    if (done == stages_[stage].size()) return false;
    const Action& action = stages_[stage][done];
    double start = done == 0 ? 0 : out_.spans[stage].back().end, length = 0;
    const int position = places_.position_of({static_cast<int>(stage), action.chunk});
    const ActionDurations& lasts = durations_[static_cast<std::size_t>(position)];
    if (action.kind == ActionKind::weight) length = lasts.weight;
    if (action.kind == ActionKind::forward || action.kind == ActionKind::backward) {
      std::optional<double> ready = input_time(action, position);
      if (!ready) return false;
      start = std::max(start, *ready);
      bool is_forward = action.kind == ActionKind::forward;
      length = is_forward ? lasts.forward : lasts.backward + (defers_weights_ ? 0 : lasts.weight);
      (is_forward ? forward_end_ : backward_end_)[{position, action.micro_batch}] = start + length;
    }
    out_.spans[stage].push_back({start, start + length});
    return true;
  }

  /// Returns when all of the action's inputs are ready, or nullopt if we do not know yet. Inputs come from a
  /// neighboring chunk. A backward also needs the same chunk's forward.
  std::optional<double> input_time(const Action& action, int position) const {
    auto end_of = [&](const std::map<Key, double>& ends, int at) -> std::optional<double> {
      auto found = ends.find({at, action.micro_batch});
      if (found == ends.end()) return std::nullopt;
      return found->second;
    };
    if (action.kind == ActionKind::forward)
      return position == 0 ? std::optional<double>(0) : end_of(forward_end_, position - 1);
    std::optional<double> own = end_of(forward_end_, position);
    if (!own || position == places_.count() - 1) return own;
    return end_of(backward_end_, position + 1);
  }

  const std::vector<std::vector<Action>>& stages_;
  Places places_;
  std::vector<ActionDurations> durations_;
  bool defers_weights_ = false;
  std::map<Key, double> forward_end_, backward_end_;
  ScheduleTimes out_;
};

}  // namespace

ScheduleTimes schedule_times(const std::vector<std::vector<Action>>& stages, const Places& places,
                             const std::vector<ActionDurations>& durations) {
  return Simulation(stages, places, durations).run();
}

}  // namespace mtl
