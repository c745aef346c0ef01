#include "layout/zero_bubble.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"

namespace mtl {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// What a list schedule prefers.
struct Rule {
  std::array<ActionKind, 3> order;  // of those that can start at the same time, the first does
  double patience;  // a weight does not start if another action can start within this share of the weight's duration
  // At position i of n, fewer than share (n - i) + warmup micro-batches are between forward and backward before another
  // forward starts.
  double share;
  int warmup;
};

double duration(const ActionDurations& durations, ActionKind kind) {
  if (kind == ActionKind::forward) return durations.forward;
  return kind == ActionKind::backward ? durations.backward : durations.weight;
}

/// A place that is being scheduled. Micro-batches pass in order, so counts say which have been started.
struct PlaceTimes {
  std::vector<double> inputs, gradients;  // by micro-batch: when it arrives; kNever: not known yet
  std::array<int, 3> started = {};        // by ActionKind

  int& count(ActionKind kind) { return started[enum_index(kind)]; }
  int count(ActionKind kind) const { return started[enum_index(kind)]; }
};

struct StageTimes {
  std::vector<Action> actions;
  double free = 0;  // when the last action ends
};

/// An action that a stage may start.
struct Candidate {
  double start = kNever;
  int chunk = 0, micro_batch = 0;
};

class ListSchedule {
 public:
  ListSchedule(const Places& places, const std::vector<ActionDurations>& durations,
               const std::vector<int>& most_in_flight, int micro_batches, const Rule& rule)
      : places_(places),
        durations_(durations),
        most_in_flight_(most_in_flight),
        rule_(rule),
        at_(durations.size()),
        stages_(static_cast<std::size_t>(places.stages)) {
    for (PlaceTimes& place : at_)
      place.inputs = place.gradients = std::vector<double>(static_cast<std::size_t>(micro_batches), kNever);
    std::fill(at_.front().inputs.begin(), at_.front().inputs.end(), 0);
    std::vector<double> decisions(stages_.size());
    for (int s = 0; s < places.stages; ++s) decisions[s] = decision(s);
    // Each turn starts the action that can start first. An action that starts later cannot make another one ready
    // before it, so the choice is final. Only the stage and its neighbors then decide anew.
    for (std::size_t left = 3 * at_.size() * at_.front().inputs.size(); left > 0; --left) {
      const auto next = static_cast<int>(std::min_element(decisions.begin(), decisions.end()) - decisions.begin());
      require(decisions[next] < kNever, "a zero-bubble schedule deadlocks");
      start(next, decisions[next]);
      for (int s = std::max(next - 1, 0); s < std::min(next + 2, places.stages); ++s) decisions[s] = decision(s);
    }
  }

  double total() const { return std::ranges::max_element(stages_, {}, &StageTimes::free)->free; }
  std::vector<std::vector<Action>> actions() const {
    std::vector<std::vector<Action>> out;
    for (const StageTimes& stage : stages_) out.push_back(stage.actions);
    return out;
  }

 private:
  const PlaceTimes& place(int stage, int chunk) const { return at_[places_.position_of({stage, chunk})]; }

  /// Returns when a chunk's next action of a kind can start, or kNever.
  double ready(int stage, int chunk, ActionKind kind) const {
    const int position = places_.position_of({stage, chunk});
    const PlaceTimes& times = at_[position];
    const double free = stages_[stage].free;
    const int forwards = times.count(ActionKind::forward), backwards = times.count(ActionKind::backward);
    if (kind == ActionKind::weight) return times.count(ActionKind::weight) < backwards ? free : kNever;
    if (kind == ActionKind::backward) return backwards < forwards ? std::max(free, times.gradients[backwards]) : kNever;
    const bool may_start = forwards < std::ssize(times.inputs) &&
                           forwards - backwards < rule_.share * (places_.count() - position) + rule_.warmup &&
                           forwards - times.count(ActionKind::weight) < most_in_flight_[position];
    return may_start ? std::max(free, times.inputs[forwards]) : kNever;
  }

  /// Returns the stage's next action of a kind: of those that can start first, the oldest micro-batch's.
  Candidate next(int stage, ActionKind kind) const {
    Candidate best;
    for (int chunk = 0; chunk < places_.chunks; ++chunk) {
      const Candidate other{ready(stage, chunk, kind), chunk, place(stage, chunk).count(kind)};
      if (other.start < best.start || (other.start == best.start && other.micro_batch < best.micro_batch)) best = other;
    }
    return best;
  }

  /// Returns when the stage's next action starts, or kNever if that is not known yet.
  double decision(int stage) const {
    const double other = std::min(next(stage, ActionKind::forward).start, next(stage, ActionKind::backward).start);
    const Candidate weight = next(stage, ActionKind::weight);
    const double worth = rule_.patience * durations_[places_.position_of({stage, weight.chunk})].weight;
    return other < weight.start + worth ? other : std::min(other, weight.start);
  }

  void start(int s, double at) {
    ActionKind kind = rule_.order[2];
    for (std::size_t i : {1, 0})
      kind = next(s, rule_.order[i]).start <= at ? rule_.order[i] : kind;  // the first in order wins
    const Candidate chosen = next(s, kind);
    const int position = places_.position_of({s, chosen.chunk}), m = chosen.micro_batch;
    ++at_[position].count(kind);
    stages_[s].actions.push_back({kind, m, chosen.chunk});
    const double end = stages_[s].free = at + duration(durations_[position], kind);
    if (kind == ActionKind::forward)
      (position + 1 < places_.count() ? at_[position + 1].inputs : at_[position].gradients)[m] = end;
    if (kind == ActionKind::backward && position > 0) at_[position - 1].gradients[m] = end;
  }

  Places places_;
  const std::vector<ActionDurations>& durations_;
  const std::vector<int>& most_in_flight_;
  Rule rule_;
  std::vector<PlaceTimes> at_;      // by position
  std::vector<StageTimes> stages_;  // by stage
};

}  // namespace

std::vector<std::vector<Action>> zero_bubble(const Places& places, const std::vector<ActionDurations>& durations,
                                             const std::vector<int>& most_in_flight, int micro_batches) {
  require(std::ssize(durations) == places.count() && std::ssize(most_in_flight) == places.count() && micro_batches >= 1,
          "no duration or limit for every place, or no micro-batch");
  // A micro-batch in several chunks is between its forward and backward for a part of the time until the next one.
  const std::vector<double> shares = places.chunks > 1 ? std::vector{1.0, 0.75, 0.5} : std::vector{1.0};
  // Long steps repeat themselves, and trying all rules on them takes long.
  const int tried = std::min(micro_batches, std::max(4 * places.stages, 64));
  Rule best{};
  double shortest = kNever;
  for (const auto& order : {std::array{ActionKind::backward, ActionKind::forward, ActionKind::weight},
                            std::array{ActionKind::forward, ActionKind::backward, ActionKind::weight}}) {
    for (double patience : {0.0, 0.25, 0.5}) {
      for (double share : shares) {
        for (int warmup : {0, 1, micro_batches}) {
          const Rule rule{order, patience, share, warmup};
          const double total = ListSchedule(places, durations, most_in_flight, tried, rule).total();
          if (total >= shortest) continue;
          shortest = total;
          best = rule;
        }
      }
    }
  }
  return ListSchedule(places, durations, most_in_flight, micro_batches, best).actions();
}

}  // namespace mtl
