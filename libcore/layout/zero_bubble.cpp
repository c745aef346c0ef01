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
  int warmup;       // at most stages - stage + warmup micro-batches are between forward and backward
};

double duration(const ActionDurations& durations, ActionKind kind) {
  if (kind == ActionKind::forward) return durations.forward;
  return kind == ActionKind::backward ? durations.backward : durations.weight;
}

/// A stage that is being scheduled. Micro-batches pass in order, so counts say which have been started.
struct StageTimes {
  std::vector<Action> actions;
  std::vector<double> inputs, gradients;  // by micro-batch: when it arrives; kNever: not known yet
  double free = 0;                        // when the last action ends
  std::array<int, 3> started = {};        // by ActionKind

  int& count(ActionKind kind) { return started[static_cast<std::size_t>(kind)]; }
  int count(ActionKind kind) const { return started[static_cast<std::size_t>(kind)]; }

  /// Returns when the next action of a kind can start, or kNever.
  double ready(ActionKind kind, int most_ahead, int most_in_flight) const {
    const int forwards = count(ActionKind::forward), backwards = count(ActionKind::backward),
              weights = count(ActionKind::weight);
    if (kind == ActionKind::weight) return weights < backwards ? free : kNever;
    if (kind == ActionKind::backward) return backwards < forwards ? std::max(free, gradients[backwards]) : kNever;
    const bool may_start =
        forwards < std::ssize(inputs) && forwards - backwards < most_ahead && forwards - weights < most_in_flight;
    return may_start ? std::max(free, inputs[forwards]) : kNever;
  }
};

class ListSchedule {
 public:
  ListSchedule(const std::vector<ActionDurations>& durations, int most_in_flight, int micro_batches, const Rule& rule)
      : durations_(durations), most_in_flight_(most_in_flight), rule_(rule), stages_(durations.size()) {
    for (StageTimes& stage : stages_)
      stage.inputs = stage.gradients = std::vector<double>(static_cast<std::size_t>(micro_batches), kNever);
    std::fill(stages_.front().inputs.begin(), stages_.front().inputs.end(), 0);
    std::vector<double> decisions(stages_.size());
    for (std::size_t s = 0; s < stages_.size(); ++s) decisions[s] = decision(s);
    // The earliest decision comes next: actions that start later make nothing ready for it.
    for (std::size_t left = 3 * stages_.size() * stages_.front().inputs.size(); left > 0; --left) {
      const auto next = std::min_element(decisions.begin(), decisions.end()) - decisions.begin();
      require(decisions[next] < kNever, "a zero-bubble schedule deadlocks");
      start(next, decisions[next]);
      for (std::size_t s = next == 0 ? 0 : next - 1; s < std::min<std::size_t>(next + 2, stages_.size()); ++s)
        decisions[s] = decision(s);
    }
  }

  double total() const {
    double total = 0;
    for (const StageTimes& stage : stages_) total = std::max(total, stage.free);
    return total;
  }
  std::vector<std::vector<Action>> actions() const {
    std::vector<std::vector<Action>> out;
    for (const StageTimes& stage : stages_) out.push_back(stage.actions);
    return out;
  }

 private:
  double ready(std::size_t s, ActionKind kind) const {
    const int most_ahead = static_cast<int>(stages_.size() - s) + rule_.warmup;
    return stages_[s].ready(kind, most_ahead, most_in_flight_);
  }

  /// Returns when the stage's next action starts, or kNever if that is not known yet.
  double decision(std::size_t s) const {
    const double other = std::min(ready(s, ActionKind::forward), ready(s, ActionKind::backward)),
                 weight = ready(s, ActionKind::weight);
    return other < weight + rule_.patience * durations_[s].weight ? other : std::min(other, weight);
  }

  void start(std::size_t s, double at) {
    StageTimes& stage = stages_[s];
    ActionKind kind = rule_.order[2];
    for (std::size_t i : {1, 0})
      kind = ready(s, rule_.order[i]) <= at ? rule_.order[i] : kind;  // the first in order wins
    const int micro_batch = stage.count(kind)++;
    stage.actions.push_back({kind, micro_batch, 0});
    stage.free = at + duration(durations_[s], kind);
    if (kind == ActionKind::forward)
      (s + 1 < stages_.size() ? stages_[s + 1].inputs : stage.gradients)[micro_batch] = stage.free;
    if (kind == ActionKind::backward && s > 0) stages_[s - 1].gradients[micro_batch] = stage.free;
  }

  const std::vector<ActionDurations>& durations_;
  int most_in_flight_;
  Rule rule_;
  std::vector<StageTimes> stages_;
};

}  // namespace

std::vector<std::vector<Action>> zero_bubble(const std::vector<ActionDurations>& durations, int most_in_flight,
                                             int micro_batches) {
  require(!durations.empty() && most_in_flight >= 1 && micro_batches >= 1, "no stage or no micro-batch");
  std::vector<std::vector<Action>> best;
  double shortest = kNever;
  for (const auto& order : {std::array{ActionKind::backward, ActionKind::forward, ActionKind::weight},
                            std::array{ActionKind::forward, ActionKind::backward, ActionKind::weight}}) {
    for (double patience : {0.0, 0.25, 0.5}) {
      for (int warmup : {0, 1, micro_batches}) {
        const ListSchedule schedule(durations, most_in_flight, micro_batches, {order, patience, warmup});
        if (schedule.total() >= shortest) continue;
        shortest = schedule.total();
        best = schedule.actions();
      }
    }
  }
  return best;
}

}  // namespace mtl
