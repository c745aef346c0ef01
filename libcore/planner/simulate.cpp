#include "planner/simulate.h"

#include <algorithm>

#include "base/error.h"

namespace mtl {

namespace {

/// Numbers of the lanes for copies, before those of groups.
constexpr int kHostLane = 0, kFilesLane = 1;

/// Adds the time for which copies outlast the operators and copies beside them.
void add_copies(TimedEvents& events, int lane, double bytes, double gbs) {
  if (bytes == 0) return;
  double ms = bytes / (gbs * 1e6);
  for (const TimedEvent& each : events) ms -= each.kind <= TimedEvent::Kind::copy ? each.ms : 0;
  if (ms > 0) events.push_back({.kind = TimedEvent::Kind::copy, .ms = ms, .lane = lane});
}

class Simulation {
 public:
  Simulation(const std::vector<StepTrace>& traces, const Layout& layout, int node_size, const Machine& machine,
             bool tf32)
      : traces_(traces), layout_(layout), node_size_(node_size), machine_(machine), tf32_(tf32) {}

  StepTime run(Timeline* timeline) {
    for (const StepTrace& trace : traces_) script_.stages.push_back(script_of(trace));
    PipelineTimes times = pipeline_times(script_, timeline);
    return {.ms = times.ms, .stages = std::move(times.stages), .unmeasured = std::move(unmeasured_)};
  }

 private:
  StageScript script_of(const StepTrace& trace) {
    StageScript out{.schedule = trace.schedule};
    for (const Action& action : trace.schedule)
      out.list_of.push_back(action.kind <= ActionKind::weight ? trace.index_of(action) : 0);
    for (const StepTrace::Recorded& one : trace.recorded) {
      out.lists.push_back(timed(one.events));
      add_copies(out.lists.back(), kHostLane, one.host_bytes, machine_.links.host_gbs);
    }
    TimedEvents& update = out.lists.emplace_back(timed(trace.update));
    require(trace.update_file_bytes == 0 || machine_.links.disk_gbs > 0, "the rate of the disk is not known");
    add_copies(update, kHostLane, trace.update_host_bytes, machine_.links.host_gbs);
    add_copies(update, kFilesLane, trace.update_file_bytes, machine_.links.disk_gbs);
    update.push_back({.ms = machine_.outside_ms()});
    return out;
  }

  /// Returns the events with their times. Joins operators in a row.
  TimedEvents timed(const std::vector<TraceEvent>& events) {
    TimedEvents out;
    std::vector<int> at;  // in `out`, by event
    for (const TraceEvent& event : events) {
      if (event.kind == TraceEvent::Kind::work) {
        if (out.empty() || out.back().kind != TimedEvent::Kind::work) out.emplace_back();
        out.back().ms += machine_.work_ms(event, tf32_);
        if (machine_.measured != nullptr && !machine_.measured->has(event.name)) unmeasured_.insert(event.name);
      } else {
        const int lane = lane_of(event.group);
        const GroupPlace& place = places_[lane];
        out.push_back({.kind = event.kind == TraceEvent::Kind::wait ? TimedEvent::Kind::wait : TimedEvent::Kind::start,
                       .ms = operation_ms(event.operation, event.bytes, place, machine_.links),
                       .lane = lane,
                       .operation = static_cast<int>(event.operation),
                       .sends = event.operation == OperationKind::send,
                       .receives = event.operation == OperationKind::receive,
                       .blocks = machine_.links.by_core && !place.crosses_nodes(),
                       .started = event.started < 0 ? -1 : at[event.started],
                       .outlives = event.outlives});
      }
      at.push_back(static_cast<int>(out.size()) - 1);
    }
    return out;
  }

  int lane_of(const std::string& group) {
    std::vector<LaneTraits>& lanes = script_.lanes;
    const auto found = std::ranges::find(lanes, group, &LaneTraits::name);
    const auto number = static_cast<int>(found - lanes.begin());
    if (found != lanes.end()) return number;
    places_.push_back(place_of_group(layout_, group, node_size_));
    lanes.push_back({.name = group, .between_nodes = places_.back().crosses_nodes()});
    const int count = static_cast<int>(traces_.size());
    for (int stage = 0; stage < count; ++stage)
      if (group == kPipelineGroup || (group == kEmbeddingGroup && (stage == 0 || stage == count - 1)))
        lanes.back().stages.push_back(stage);
    return number;
  }

  /// A message between two stages is as slow as any two replicas' ranks that are not on one node make it.
  MessageTime message_time(int from, int to) {
    if (pipelines_.empty()) pipelines_ = layout_.grid.groups(Axis::pipeline);
    const bool crosses = std::ranges::any_of(
        pipelines_, [&](const auto& ranks) { return ranks[from] / node_size_ != ranks[to] / node_size_; });
    return {.ms = message_ms(traces_[from].message_bytes, crosses, machine_.links), .between_nodes = crosses};
  }

  const std::vector<StepTrace>& traces_;
  const Layout& layout_;
  int node_size_;
  const Machine& machine_;
  bool tf32_;
  // Gathers in the background end in the step after the one that starts them, so the second step is the one to time.
  PipelineScript script_{.places = layout_.places(),
                         .lanes = {{.name = kHost}, {.name = kFiles}},
                         .message = [this](int from, int to) { return message_time(from, to); },
                         .steps = 2};
  std::vector<GroupPlace> places_{2};  // by lane
  std::set<std::string> unmeasured_;
  std::vector<std::vector<int>> pipelines_;  // the ranks of every pipeline, by stage
};

}  // namespace

StepTime simulate_step(const std::vector<StepTrace>& traces, const Layout& layout, int node_size,
                       const Machine& machine, bool tf32, Timeline* timeline) {
  return Simulation(traces, layout, node_size, machine, tf32).run(timeline);
}

}  // namespace mtl
