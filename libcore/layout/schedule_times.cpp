#include "layout/schedule_times.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace mtl {

namespace {

class ScheduleClock {
 public:
  ScheduleClock(const PipelineScript& script, Timeline* timeline) : script_(script), timeline_(timeline) {
    if (timeline != nullptr) *timeline = {.ms = 0, .stages = std::vector<Timeline::Stage>(script.stages.size())};
    for (const StageScript& stage : script.stages) {
      ranks_.push_back({.number = std::ssize(ranks_), .script = stage});
      ranks_.back().lanes.resize(script.lanes.size());
    }
  }

  PipelineTimes run() {
    for (bool has_progress = true; has_progress;) {
      has_progress = false;
      for (Rank& rank : ranks_) {
        while (advance(rank)) has_progress = true;
      }
    }
    double first = 0, last = 0;  // ends of the steps
    double begin = INFINITY;
    for (const Rank& rank : ranks_) {
      require(rank.step == script_.steps, "stage ", rank.number, " deadlocks in its schedule");
      first = std::max(first, rank.first_end);
      begin = std::min(begin, rank.first_end);
      last = std::max(last, rank.now);
    }
    PipelineTimes out{.ms = last - first};
    for (Rank& rank : ranks_) {
      if (timeline_ != nullptr) finish_timeline(rank, begin, last);
      rank.time.idle += (last - rank.now) - (first - rank.first_end);
      std::erase_if(rank.time.waits, [](const auto& wait) { return wait.second == 0; });
      out.stages.push_back(std::move(rank.time));
      out.spans.push_back(std::move(rank.spans));
    }
    return out;
  }

 private:
  struct Lane {
    double free = 0;                              // from when
    std::map<int, std::deque<double>> outliving;  // as `inside`, of earlier lists, by TimedEvent::operation
    std::deque<double> ring;                      // ends of sends that the rank's receives have not met
    std::vector<double> joint;                    // starts of this stage's parts in operations of several stages
    std::size_t joint_waits = 0;
  };
  struct Rank {
    std::ptrdiff_t number;
    const StageScript& script;
    std::vector<Lane> lanes = {};
    std::size_t action = 0;  // in its schedule; at its end, the update
    std::size_t event = 0;   // in the action
    int step = 0;
    double now = 0, first_end = 0, began = 0;  // began: the action
    StageTime time = {};                       // in the current step
    std::vector<TimeSpan> spans = {};          // of the current step's actions
    // Ends of operations, by event of the action. Of an operation of several stages, its duration.
    std::vector<double> inside = {};
    std::map<std::pair<bool, std::string>, std::vector<TimeSpan>> links = {};  // for LinkLane
  };
  /// For messages between two stages in one direction, activations or gradients.
  struct Channel {
    MessageTime time;
    double free = 0;                                 // from when
    std::deque<std::pair<int, TimeSpan>> sent = {};  // micro-batches that have not been received
  };

  /// Does the rank's next event or action. Returns false if it must wait for another stage, or is done.
  bool advance(Rank& rank) {
    if (rank.step == script_.steps) return false;
    const StageScript& script = rank.script;
    const bool is_update = rank.action == script.schedule.size();
    if (!is_update && script.schedule[rank.action].kind > ActionKind::weight)
      return pass_message(rank, script.schedule[rank.action]);
    const TimedEvents& events = is_update ? script.lists.back() : script.lists[script.list_of[rank.action]];
    if (rank.event == 0) {
      rank.inside.assign(events.size(), {});
      rank.began = rank.now;
    }
    for (; rank.event < events.size(); ++rank.event) {
      if (!perform(rank, events[rank.event])) return false;
    }
    rank.event = 0;
    if (!is_update) {
      rank.spans.push_back({rank.began, rank.now});
      ++rank.action;
    } else if (++rank.step < script_.steps) {
      rank.first_end = rank.now;
      rank.time = {};
      rank.spans.clear();
      rank.action = 0;
    }
    return true;
  }

  /// Moves the rank on to `until`, and notes how it spends the time.
  void spend(Rank& rank, double until, StageSpan::Kind kind) {
    if (timeline_ != nullptr && rank.step + 1 == script_.steps && until > rank.now) {
      std::vector<StageSpan>& spans = timeline_->stages[rank.number].spans;
      const std::vector<Action>& schedule = rank.script.schedule;
      if (spans.empty() || spans.back().kind != kind || spans.back().action != rank.action) {
        const Action of = rank.action < schedule.size() ? schedule[rank.action] : Action();
        spans.push_back({kind, rank.action, of.micro_batch, of.chunk, rank.now});
      }
      spans.back().end = until;
    }
    rank.now = until;
  }

  void wait_until(Rank& rank, double end, double& waited, StageSpan::Kind kind = StageSpan::Kind::wait) {
    if (end <= rank.now) return;
    waited += end - rank.now;
    spend(rank, end, kind);
  }

  void note_link(Rank& rank, bool between_nodes, const std::string& name, TimeSpan span) const {
    if (timeline_ != nullptr && span.end > span.start) rank.links[{between_nodes, name}].push_back(span);
  }

  bool pass_message(Rank& rank, const Action& action) {
    int from = static_cast<int>(rank.number), to = peer_stage(action, script_.places, from);
    if (is_receive(action.kind)) std::swap(from, to);
    const bool forward = action.kind == ActionKind::send_forward || action.kind == ActionKind::receive_forward;
    const auto [at, is_new] = channels_.try_emplace({from, to, forward});
    Channel& channel = at->second;
    if (is_new) channel.time = script_.message(from, to);
    if (is_receive(action.kind)) {
      if (channel.sent.empty() || channel.sent.front().first != action.micro_batch) return false;
      const TimeSpan way = channel.sent.front().second;
      wait_until(rank, way.start, rank.time.idle, StageSpan::Kind::idle);
      wait_until(rank, way.end, rank.time.message_wait);
      channel.sent.pop_front();
    } else {
      const double start = std::max(rank.now, channel.free);
      channel.free = start + channel.time.ms;
      channel.sent.push_back({action.micro_batch, {start, channel.free}});
      note_link(rank, channel.time.between_nodes, kMessages, {start, channel.free});
      ++rank.time.sent;
    }
    ++rank.action;
    return true;
  }

  bool perform(Rank& rank, const TimedEvent& event) {
    if (event.kind == TimedEvent::Kind::wait) return wait(rank, event);
    const std::vector<Action>& schedule = rank.script.schedule;
    if (event.kind == TimedEvent::Kind::work) {
      spend(rank, rank.now + event.ms,
            rank.action == schedule.size() ? StageSpan::Kind::update : StageSpan::Kind(schedule[rank.action].kind));
      rank.time.compute += event.ms;
      return true;
    }
    const LaneTraits& traits = script_.lanes[event.lane];
    Lane& lane = rank.lanes[event.lane];
    double end = event.ms;
    if (event.kind == TimedEvent::Kind::copy) {
      spend(rank, rank.now + event.ms, StageSpan::Kind::wait);
      rank.time.waits[traits.name] += event.ms;
    } else if (!traits.stages.empty()) {
      lane.joint.push_back(rank.now);
    } else if (!event.receives) {
      const double start = std::max(rank.now, lane.free);
      end = lane.free = start + event.ms;
      note_link(rank, traits.between_nodes, traits.name, {start, end});
      if (event.blocks) wait_until(rank, end, rank.time.waits[traits.name]);
      if (event.sends) lane.ring.push_back(end);
    }
    rank.inside[rank.event] = end;
    if (event.outlives) lane.outliving[event.operation].push_back(end);
    return true;
  }

  bool wait(Rank& rank, const TimedEvent& event) {
    const LaneTraits& traits = script_.lanes[event.lane];
    Lane& lane = rank.lanes[event.lane];
    std::deque<double>* earlier = event.started < 0 ? &lane.outliving[event.operation] : nullptr;
    if (earlier != nullptr && earlier->empty()) return true;  // of the step before the first
    double end = earlier != nullptr ? earlier->front() : rank.inside[event.started];
    if (!traits.stages.empty()) {
      double start = 0;  // when the last stage has come to it
      for (int stage : traits.stages) {
        const std::vector<double>& joint = ranks_[stage].lanes[event.lane].joint;
        if (joint.size() <= lane.joint_waits) return false;
        start = std::max(start, joint[lane.joint_waits]);
      }
      ++lane.joint_waits;
      wait_until(rank, start, rank.time.idle, StageSpan::Kind::idle);
      end += start;
      note_link(rank, traits.between_nodes, traits.name, {start, end});
    } else if (event.receives) {
      require(!lane.ring.empty(), "a receive around a ring without a send");
      end = lane.ring.front();
      lane.ring.pop_front();
    }
    if (earlier != nullptr) earlier->pop_front();
    wait_until(rank, end, rank.time.waits[traits.name]);
    return true;
  }

  /// Keeps what is after `first`, the start of the step, and before `last`.
  void finish_timeline(const Rank& rank, double first, double last) const {
    timeline_->ms = last - first;
    Timeline::Stage& stage = timeline_->stages[rank.number];
    const double begin = stage.spans.empty() ? last : stage.spans.front().start;
    const double end = stage.spans.empty() ? last : stage.spans.back().end;
    if (begin > first) stage.spans.insert(stage.spans.begin(), StageSpan{.start = first, .end = begin});
    if (end < last) stage.spans.push_back({.start = end, .end = last});
    for (StageSpan& span : stage.spans) {
      span.start -= first;
      span.end -= first;
    }
    for (const auto& [name, spans] : rank.links) {
      LinkLane lane{.name = name.second, .between_nodes = name.first};
      for (const TimeSpan& span : spans) {
        const TimeSpan kept{std::max(span.start - first, 0.0), std::min(span.end, last) - first};
        if (kept.end > kept.start) lane.spans.push_back(kept);
      }
      std::ranges::sort(lane.spans, {}, &TimeSpan::start);
      if (!lane.spans.empty()) stage.links.push_back(std::move(lane));
    }
  }

  const PipelineScript& script_;
  Timeline* timeline_;
  std::vector<Rank> ranks_;
  std::map<std::tuple<int, int, bool>, Channel> channels_;  // by stages and direction
};

}  // namespace

double StageTime::waiting() const {
  double out = message_wait;
  for (const auto& [lane, time] : waits) out += time;
  return out;
}

PipelineTimes pipeline_times(const PipelineScript& script, Timeline* timeline) {
  return ScheduleClock(script, timeline).run();
}

ScheduleTimes schedule_times(const std::vector<std::vector<Action>>& stages, const Places& places,
                             const std::vector<ActionDurations>& durations) {
  const bool defers_weights = std::ranges::any_of(stages, has_weights);
  PipelineScript script{.places = places};
  for (int stage = 0; stage < std::ssize(stages); ++stage) {
    StageScript& out = script.stages.emplace_back(with_communication(stages[stage], places, stage));
    for (int chunk = 0; chunk < places.chunks; ++chunk) {
      const ActionDurations lasts =
          durations.empty() ? ActionDurations{} : durations[places.position_of({stage, chunk})];
      const double backward = lasts.backward + (defers_weights ? 0 : lasts.weight);
      for (const double length : {lasts.forward, backward, lasts.weight}) out.lists.push_back({{.ms = length}});
    }
    for (const Action& action : out.schedule) out.list_of.push_back(3 * action.chunk + enum_index(action.kind));
    out.lists.emplace_back();  // no update
  }
  PipelineTimes times = pipeline_times(script);
  ScheduleTimes out{.spans = std::move(times.spans), .total = times.ms};
  for (const std::vector<TimeSpan>& spans : out.spans) {
    double work = 0;
    for (const TimeSpan& span : spans) work += span.end - span.start;
    out.ideal = std::max(out.ideal, work);
  }
  return out;
}

}  // namespace mtl
