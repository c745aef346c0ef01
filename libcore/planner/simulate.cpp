#include "planner/simulate.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>

#include "base/error.h"

namespace mtl {

namespace {

/// True for groups with ranks of several stages, whose operations start when the last of them has come to it.
bool is_joint(const std::string& group) { return group == kEmbeddingGroup || group == kPipelineGroup; }

bool is_send(ActionKind kind) { return kind == ActionKind::send_forward || kind == ActionKind::send_backward; }

/// A stage's part in an operation of several stages.
struct JointPart {
  double start, bytes;
};

/// An operation whose end is known once all ranks have come to it.
struct Started {
  double start = 0;
  std::optional<double> end;
};

/// An event with the time of its operators. `event.kind` is work for operators in a row, of which only the time is
/// left.
struct TimedEvent {
  TraceEvent event;
  double ms = 0;
};
using TimedEvents = std::vector<TimedEvent>;

/// Returns the events with their times. Joins operators in a row. Adds those that the profile lacks to `unmeasured`.
TimedEvents timed(const std::vector<TraceEvent>& events, const Machine& machine, bool tf32,
                  std::set<std::string>& unmeasured) {
  TimedEvents out;
  std::vector<int> at;  // in `out`, by event
  for (const TraceEvent& event : events) {
    const bool is_work = event.kind == TraceEvent::Kind::work;
    const bool joins = is_work && !out.empty() && out.back().event.kind == TraceEvent::Kind::work;
    if (!joins) out.push_back({event, 0});
    if (is_work) out.back().ms += machine.work_ms(event, tf32);
    if (is_work && machine.measured != nullptr && !machine.measured->has(event.name)) unmeasured.insert(event.name);
    if (event.started >= 0) out.back().event.started = at[static_cast<std::size_t>(event.started)];
    at.push_back(static_cast<int>(out.size()) - 1);
  }
  return out;
}

/// Adds the time for which copies from a place and back outlast the operators beside them.
void add_copies(TimedEvents& events, const char* place, double bytes, double gbs) {
  if (bytes == 0) return;
  double ms = bytes / (gbs * 1e6);
  for (const TimedEvent& each : events) ms -= each.ms;
  if (ms > 0) events.push_back({.event = {.kind = TraceEvent::Kind::copy, .group = place}, .ms = ms});
}

/// A message's way: between which stages, and in which channel.
struct Route {
  int from, to;
  bool forward;
  auto operator<=>(const Route&) const = default;
};

/// Collects a timeline while a step is simulated.
class TimelineRecorder {
 public:
  TimelineRecorder(std::size_t stages, Timeline& timeline) : timeline_(timeline), links_(stages) {
    timeline_ = {.ms = 0, .stages = {stages, Timeline::Stage()}};
  }

  /// Adds what a stage does next. It joins the last span if it goes on with the same.
  void add(std::size_t stage, StageSpan span) {
    if (span.end <= span.start) return;
    std::vector<StageSpan>& spans = timeline_.stages[stage].spans;
    if (!spans.empty() && spans.back().kind == span.kind && spans.back().action == span.action)
      spans.back().end = span.end;
    else
      spans.push_back(span);
  }
  void add_operation(std::size_t stage, const std::string& name, bool between_nodes, TimeSpan span) {
    if (span.end > span.start) links_[stage][{between_nodes, name}].push_back(span);
  }

  /// Keeps what is after `first`, the start of the step, and before `last`.
  void finish(double first, double last) {
    timeline_.ms = last - first;
    for (std::size_t i = 0; i < links_.size(); ++i) {
      Timeline::Stage& stage = timeline_.stages[i];
      const double begin = stage.spans.empty() ? last : stage.spans.front().start;
      const double end = stage.spans.empty() ? last : stage.spans.back().end;
      if (begin > first) stage.spans.insert(stage.spans.begin(), StageSpan{.start = first, .end = begin});
      if (end < last) stage.spans.push_back({.start = end, .end = last});
      for (StageSpan& span : stage.spans) {
        span.start -= first;
        span.end -= first;
      }
      for (const auto& [name, spans] : links_[i]) {
        LinkLane lane{.name = name.second, .between_nodes = name.first};
        for (const TimeSpan& span : spans) {
          const TimeSpan kept{std::max(span.start - first, 0.0), std::min(span.end, last) - first};
          if (kept.end > kept.start) lane.spans.push_back(kept);
        }
        std::ranges::sort(lane.spans, {}, &TimeSpan::start);
        if (!lane.spans.empty()) stage.links.push_back(std::move(lane));
      }
    }
  }

 private:
  Timeline& timeline_;
  std::vector<std::map<std::pair<bool, std::string>, std::vector<TimeSpan>>> links_;  // by stage
};

StageSpan::Kind span_kind(ActionKind kind) {
  if (kind == ActionKind::forward) return StageSpan::Kind::forward;
  return kind == ActionKind::weight ? StageSpan::Kind::weight : StageSpan::Kind::backward;
}

class Simulation {
 public:
  Simulation(const std::vector<StepTrace>& traces, const Layout& layout, int node_size, const Machine& machine,
             bool tf32, Timeline* timeline)
      : traces_(traces), layout_(layout), node_size_(node_size), links_(machine.links), ranks_(traces.size()) {
    if (timeline != nullptr) recorder_.emplace(traces.size(), *timeline);
    for (std::size_t stage = 0; stage < traces.size(); ++stage) {
      Rank& rank = ranks_[stage];
      rank.number = static_cast<int>(stage);
      for (const StepTrace::Recorded& one : traces[stage].recorded) {
        rank.actions.push_back(timed(one.events, machine, tf32, out_.unmeasured));
        add_copies(rank.actions.back(), kHost, one.host_bytes, links_.host_gbs);
      }
      rank.actions.push_back(timed(traces[stage].update, machine, tf32, out_.unmeasured));
      require(traces[stage].update_file_bytes == 0 || links_.disk_gbs > 0, "the rate of the disk is not known");
      add_copies(rank.actions.back(), kHost, traces[stage].update_host_bytes, links_.host_gbs);
      add_copies(rank.actions.back(), kFiles, traces[stage].update_file_bytes, links_.disk_gbs);
      rank.actions.back().push_back({.event = {}, .ms = machine.outside_ms()});
    }
  }

  StepTime run() {
    for (bool has_progress = true; has_progress;) {
      has_progress = false;
      for (Rank& rank : ranks_) {
        while (advance(rank)) has_progress = true;
      }
    }
    double first = 0, last = 0;  // ends of the steps
    double begin = INFINITY;
    for (const Rank& rank : ranks_) {
      require(rank.step == kSteps, "stage ", rank.number, " deadlocks in its schedule");
      first = std::max(first, rank.first_end);
      begin = std::min(begin, rank.first_end);
      last = std::max(last, rank.now);
    }
    out_.ms = last - first;
    if (recorder_) recorder_->finish(begin, last);
    for (Rank& rank : ranks_) {
      rank.time.idle += (last - rank.now) - (first - rank.first_end);
      out_.stages.push_back(rank.time);
    }
    return std::move(out_);
  }

 private:
  struct Rank {
    int number = 0;
    std::vector<TimedEvents> actions;  // as recorded; the last is the update
    std::size_t action = 0;            // in its schedule; at its end, the update
    std::size_t event = 0;             // in the action
    int step = 0;
    double now = 0, first_end = 0;
    StageTime time;                                                                  // in the current step
    std::map<std::string, double> lanes;                                             // when each group's is free
    std::vector<Started> inside;                                                     // by event of the action
    std::map<std::pair<std::string, OperationKind>, std::deque<Started>> outliving;  // of earlier actions
    std::map<std::string, std::deque<double>> ring;  // ends of sends that the rank's receives have not met
    std::map<std::string, std::size_t> joint_waits;  // by group: operations of several stages so far
  };

  const StepTrace& trace(const Rank& rank) const { return traces_[static_cast<std::size_t>(rank.number)]; }

  /// Gathers in the background end in the step after the one that starts them, so the second step is the one to time.
  static constexpr int kSteps = 2;

  /// Does the rank's next event or action. Returns false if it must wait for another stage, or is done.
  bool advance(Rank& rank) {
    if (rank.step == kSteps) return false;
    const std::vector<Action>& schedule = trace(rank).schedule;
    const bool is_update = rank.action == schedule.size();
    if (!is_update && is_send(schedule[rank.action].kind)) return send(rank, schedule[rank.action]);
    if (!is_update && is_receive(schedule[rank.action].kind)) return receive(rank, schedule[rank.action]);
    const TimedEvents& events =
        is_update ? rank.actions.back() : rank.actions[trace(rank).index_of(schedule[rank.action])];
    if (rank.event == 0) rank.inside.assign(events.size(), {});
    for (; rank.event < events.size(); ++rank.event) {
      if (!perform(rank, events[rank.event])) return false;
    }
    rank.event = 0;
    ++rank.action;
    if (is_update) end_step(rank);
    return true;
  }

  static void end_step(Rank& rank) {
    rank.action = 0;
    if (++rank.step == kSteps) return;
    rank.first_end = rank.now;
    rank.time = {};
  }

  Route route(const Rank& rank, const Action& action) const {
    const int peer = peer_stage(action, layout_.places(), rank.number);
    const bool forward = action.kind == ActionKind::send_forward || action.kind == ActionKind::receive_forward;
    return is_send(action.kind) ? Route{rank.number, peer, forward} : Route{peer, rank.number, forward};
  }

  /// Moves the rank on to `until`, and notes how it spends the time.
  void spend(Rank& rank, double until, StageSpan::Kind kind) {
    if (recorder_ && rank.step + 1 == kSteps) {
      StageSpan span{.kind = kind, .action = rank.action, .start = rank.now, .end = until};
      const std::vector<Action>& schedule = trace(rank).schedule;
      if (rank.action < schedule.size()) {
        span.micro_batch = schedule[rank.action].micro_batch;
        span.chunk = schedule[rank.action].chunk;
      }
      recorder_->add(static_cast<std::size_t>(rank.number), span);
    }
    rank.now = until;
  }

  void note_operation(const Rank& rank, const std::string& name, bool crosses, TimeSpan span) {
    if (recorder_) recorder_->add_operation(static_cast<std::size_t>(rank.number), name, crosses, span);
  }

  bool send(Rank& rank, const Action& action) {
    const Route way = route(rank, action);
    double& free = message_lanes_[way];
    const double start = std::max(rank.now, free);
    free = start + message_ms(trace(rank).message_bytes, crosses_nodes(way), links_);
    messages_[way].push_back({.start = start, .end = free});
    ++rank.time.sent;
    note_operation(rank, kMessages, crosses_nodes(way), {start, free});
    ++rank.action;
    return true;
  }

  bool receive(Rank& rank, const Action& action) {
    std::deque<Started>& sent = messages_[route(rank, action)];
    if (sent.empty()) return false;
    const Started message = sent.front();
    sent.pop_front();
    const double began = rank.now, on_its_way = std::max(began, message.start);
    spend(rank, on_its_way, StageSpan::Kind::idle);
    spend(rank, std::max(began, *message.end), StageSpan::Kind::wait);
    rank.time.idle += on_its_way - began;
    rank.time.message_wait += rank.now - on_its_way;
    ++rank.action;
    return true;
  }

  /// True if a message between any two replicas' ranks of these stages leaves its node.
  bool crosses_nodes(const Route& way) {
    const auto [at, is_new] = crosses_.try_emplace(std::minmax(way.from, way.to));
    if (is_new) {
      if (pipelines_.empty()) pipelines_ = layout_.grid.groups(Axis::pipeline);
      for (const std::vector<int>& ranks : pipelines_)
        at->second = at->second || ranks[way.from] / node_size_ != ranks[way.to] / node_size_;
    }
    return at->second;
  }

  bool perform(Rank& rank, const TimedEvent& timed_event) {
    const TraceEvent& event = timed_event.event;
    if (event.kind == TraceEvent::Kind::wait) return wait(rank, event);
    if (event.kind == TraceEvent::Kind::start) start(rank, event);
    const bool is_copy = event.kind == TraceEvent::Kind::copy;
    const std::vector<Action>& schedule = trace(rank).schedule;
    spend(rank, rank.now + timed_event.ms,
          is_copy                          ? StageSpan::Kind::wait
          : rank.action == schedule.size() ? StageSpan::Kind::update
                                           : span_kind(schedule[rank.action].kind));
    (is_copy ? rank.time.waits[event.group] : rank.time.compute) += timed_event.ms;
    return true;
  }

  void start(Rank& rank, const TraceEvent& event) {
    Started operation{.start = rank.now, .end = {}};
    double& lane = rank.lanes[event.group];
    if (is_joint(event.group)) {
      joint_parts_[{event.group, rank.number}].push_back({rank.now, event.bytes});
    } else if (event.operation != OperationKind::receive) {  // which ends when the matching send does
      operation.start = std::max(rank.now, lane);
      lane = operation.start + operation_ms(event.operation, event.bytes, place(event.group), links_);
      operation.end = lane;
      const bool crosses = place(event.group).crosses_nodes();
      note_operation(rank, event.group, crosses, {operation.start, lane});
      if (links_.by_core && !crosses) wait_until(rank, event.group, lane);
      if (event.operation == OperationKind::send) rank.ring[event.group].push_back(lane);
    }
    rank.inside[rank.event] = operation;
    if (event.outlives) rank.outliving[{event.group, event.operation}].push_back(operation);
  }

  bool wait(Rank& rank, const TraceEvent& event) {
    Started operation;
    std::deque<Started>* earlier = nullptr;
    if (event.started >= 0) {
      operation = rank.inside[static_cast<std::size_t>(event.started)];
    } else {
      earlier = &rank.outliving[{event.group, event.operation}];
      if (earlier->empty()) return true;  // of the step before the first
      operation = earlier->front();
    }
    double end = 0;
    if (is_joint(event.group)) {
      const std::optional<double> joint = joint_end(rank, event);
      if (!joint) return false;
      end = *joint;
    } else if (event.operation == OperationKind::receive) {
      std::deque<double>& sent = rank.ring[event.group];
      require(!sent.empty(), "a receive around a ring without a send");
      end = sent.front();
      sent.pop_front();
    } else {
      end = *operation.end;
    }
    if (earlier != nullptr) earlier->pop_front();
    wait_until(rank, event.group, end);
    return true;
  }

  void wait_until(Rank& rank, const std::string& group, double end) {
    if (end <= rank.now) return;
    rank.time.waits[group] += end - rank.now;
    spend(rank, end, StageSpan::Kind::wait);
  }

  /// Returns when an operation of several stages ends, or nothing while one of them has not come to it. The time until
  /// the last has come is idle.
  std::optional<double> joint_end(Rank& rank, const TraceEvent& event) {
    const std::size_t number = rank.joint_waits[event.group];
    const int last = static_cast<int>(ranks_.size()) - 1;
    double start = 0, bytes = 0;
    for (int stage = 0; stage <= last; ++stage) {
      if (event.group == kEmbeddingGroup && stage != 0 && stage != last) continue;
      const std::vector<JointPart>& parts = joint_parts_[{event.group, stage}];
      if (parts.size() <= number) return std::nullopt;
      start = std::max(start, parts[number].start);
      if (stage == rank.number) bytes = parts[number].bytes;
    }
    ++rank.joint_waits[event.group];
    if (start > rank.now) {
      rank.time.idle += start - rank.now;
      spend(rank, start, StageSpan::Kind::idle);
    }
    const double end = start + operation_ms(event.operation, bytes, place(event.group), links_);
    note_operation(rank, event.group, place(event.group).crosses_nodes(), {start, end});
    return end;
  }

  const GroupPlace& place(const std::string& group) {
    const auto [at, is_new] = places_.try_emplace(group);
    if (is_new) at->second = place_of_group(layout_, group, node_size_);
    return at->second;
  }

  const std::vector<StepTrace>& traces_;
  const Layout& layout_;
  int node_size_;
  const Links& links_;
  std::vector<Rank> ranks_;
  StepTime out_;
  std::map<Route, std::deque<Started>> messages_;  // that have not been received
  std::map<Route, double> message_lanes_;
  std::vector<std::vector<int>> pipelines_;  // the ranks of every pipeline, by stage
  std::map<std::pair<int, int>, bool> crosses_;
  std::map<std::pair<std::string, int>, std::vector<JointPart>> joint_parts_;  // by group and stage
  std::map<std::string, GroupPlace> places_;
  std::optional<TimelineRecorder> recorder_;
};

}  // namespace

double StageTime::waiting() const {
  double out = message_wait;
  for (const auto& [group, ms] : waits) out += ms;
  return out;
}

StepTime simulate_step(const std::vector<StepTrace>& traces, const Layout& layout, int node_size,
                       const Machine& machine, bool tf32, Timeline* timeline) {
  return Simulation(traces, layout, node_size, machine, tf32, timeline).run();
}

}  // namespace mtl
