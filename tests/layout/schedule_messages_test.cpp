// Schedules: none deadlocks, and all messages match. Simulates all stages together, with blocking receives and a limit
// on the messages in flight between ranks.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "tests/layout/pipelines.h"

using namespace mtl;
using namespace mtl::test;

namespace {

bool is_send(ActionKind kind) { return kind == ActionKind::send_forward || kind == ActionKind::send_backward; }
bool is_gradient(ActionKind kind) {
  return kind == ActionKind::send_backward || kind == ActionKind::receive_backward || kind == ActionKind::backward;
}

/// A message: its kind, the receiving chunk, numbered across the entire model, and its micro-batch.
struct Message {
  bool gradient;
  int chunk, micro_batch;
  bool operator==(const Message&) const = default;
};

/// Simulates a pipeline. A send posts its message and continues. It blocks while outstanding[is_gradient] messages are
/// in the channel. A receive takes the oldest message, or blocks until there is one. Activations and gradients use
/// separate channels.
class Simulation {
 public:
  Simulation(ScheduleKind kind, const PipelineCase& shape, std::array<std::size_t, 2> outstanding)
      : shape_(shape),
        places_(shape.places(kind)),
        outstanding_(outstanding),
        next_(static_cast<std::size_t>(shape.stages)) {
    auto schedule = shape.schedule(kind);
    for (int stage = 0; stage < shape.stages; ++stage) {
      actions_.push_back(with_communication(schedule[static_cast<std::size_t>(stage)], places_, stage));
    }
  }

  /// Returns how many stages run to completion.
  int run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int stage = 0; stage < shape_.stages; ++stage) {
        while (step(stage)) moved = true;
      }
    }
    int ended = 0;
    for (std::size_t stage = 0; stage < actions_.size(); ++stage) ended += next_[stage] == actions_[stage].size();
    for (const auto& [channel, queue] : channels_) CHECK((queue.empty() || ended < shape_.stages));
    return ended;
  }

 private:
  struct Channel {
    int from, to;
    bool gradient;
    auto operator<=>(const Channel&) const = default;
  };

  bool step(int stage) {
    auto at = static_cast<std::size_t>(stage);
    if (next_[at] == actions_[at].size()) return false;
    const Action& action = actions_[at][next_[at]];
    int chunk = places_.position_of({stage, action.chunk}), m = action.micro_batch;
    bool gradient = is_gradient(action.kind);
    if (is_send(action.kind)) {
      auto& queue = channels_[{stage, peer_stage(action, places_, stage), gradient}];
      if (queue.size() == outstanding_[gradient]) return false;
      CHECK(done_[gradient].count({chunk, m}) == 1);  // only computed data is sent
      queue.push_back({gradient, chunk + (gradient ? -1 : 1), m});
    } else if (is_receive(action.kind)) {
      auto& queue = channels_[{peer_stage(action, places_, stage), stage, gradient}];
      if (queue.empty()) return false;
      CHECK(queue.front() == Message{gradient, chunk, m});
      queue.pop_front();
      received_[gradient].insert({chunk, m});
    } else if (action.kind == ActionKind::weight) {
      CHECK(done_[true].count({chunk, m}) == 1);
      CHECK(weights_.insert({chunk, m}).second);
    } else {
      CHECK(has_input(gradient, {stage, action.chunk}, m));
      if (gradient) CHECK(done_[false].count({chunk, m}) == 1);
      CHECK(done_[gradient].insert({chunk, m}).second);  // computed once
    }
    ++next_[at];
    return true;
  }

  /// Returns true if a forward's or backward's input was received, or computed by the same stage, or if it needs none.
  bool has_input(bool gradient, Place place, int m) const {
    const int chunk = places_.position_of(place);
    if (gradient ? places_.ends_model(place) : places_.begins_model(place)) return true;
    if (gradient ? places_.turns_after(place) : places_.turns_before(place))
      return done_[gradient].count({chunk + (gradient ? 1 : -1), m}) == 1;
    return received_[gradient].count({chunk, m}) == 1;
  }

  PipelineCase shape_;
  Places places_;
  std::array<std::size_t, 2> outstanding_;  // by is_gradient()
  std::vector<std::vector<Action>> actions_;
  std::vector<std::size_t> next_;
  std::map<Channel, std::deque<Message>> channels_;
  std::set<std::pair<int, int>> done_[2], received_[2];  // by is_gradient(): chunk, micro-batch
  std::set<std::pair<int, int>> weights_;
};

void check_all_end(ScheduleKind kind, const PipelineCase& shape) {
  CAPTURE(static_cast<int>(kind));
  CAPTURE(shape.stages);
  CAPTURE(shape.chunks);
  CAPTURE(shape.micro_batches);
  CAPTURE(shape.group);
  const bool has_group = shape.group > 0;
  const auto most =
      static_cast<std::size_t>(has_group ? rank_schedule(shape.layout(kind), shape.micro_batches).unreceived : 1);
  CHECK(Simulation(kind, shape, {most, most}).run() == shape.stages);
  CHECK(Simulation(kind, shape, {1000, 1000}).run() == shape.stages);
}

}  // namespace

TEST_CASE("one chunk: every stage completes and receives what was sent, even with one outstanding message") {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 16; ++m) {
      check_all_end(ScheduleKind::one_forward_one_backward, {.stages = p, .micro_batches = m});
      for (ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::zero_bubble_1, ScheduleKind::zero_bubble_2})
        check_all_end(kind, {.stages = p, .micro_batches = m});
    }
  }
}

TEST_CASE("V: every stage completes and receives what was sent, even with one outstanding message") {
  for (int p = 2; p <= 8; ++p) {
    for (int m = 1; m <= 16; ++m)
      check_all_end(ScheduleKind::zero_bubble_v, {.stages = p, .chunks = 2, .micro_batches = m});
  }
}

// Sends of activations do not block: each has a slot of its own.
TEST_CASE("unequal places: every stage completes if a channel can hold the gradients that rank_schedule() says") {
  std::mt19937 random(17);
  const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
  int blocked = 0;  // with one outstanding message
  for (int i = 0; i < 500; ++i) {
    const bool is_vee = i % 4 != 0;
    const int p = 2 + below(6), chunks = is_vee ? 2 : 1;
    PipelineCase shape{.stages = p, .chunks = chunks, .micro_batches = 1 + below(12)};
    std::vector<int> layers;
    for (int place = 0; place < p * chunks; ++place) layers.push_back(below(3));
    shape.durations = durations_of(layers, below(4));
    const ScheduleKind kind = is_vee          ? ScheduleKind::zero_bubble_v
                              : below(2) == 0 ? ScheduleKind::zero_bubble_1
                                              : ScheduleKind::zero_bubble_2;
    CAPTURE(static_cast<int>(kind));
    CAPTURE(p);
    CAPTURE(shape.micro_batches);
    const int unreceived = rank_schedule(shape.layout(kind), shape.micro_batches).unreceived;
    CHECK(Simulation(kind, shape, {1000, static_cast<std::size_t>(unreceived)}).run() == p);
    blocked += Simulation(kind, shape, {1000, 1}).run() < p;
  }
  CHECK(blocked > 0);
}

// If a group is larger than the number of stages, the first stage is still working on it when the first results arrive
// from the last stage.
TEST_CASE("interleaved: every stage completes if channels hold what rank_schedule() says, for all valid group sizes") {
  for (int p = 2; p <= 8; ++p) {
    for (int chunks = 2; chunks <= 4; ++chunks) {
      for (int m = p; m <= 16; ++m) {
        for (int group = p; group <= m; ++group) {
          if (m % group == 0 || m % group >= p)
            check_all_end(ScheduleKind::interleaved,
                          {.stages = p, .chunks = chunks, .micro_batches = m, .group = group});
        }
      }
    }
  }
}
