// Zero-bubble schedules: complete, within their memory, and as short as the hand-made schedules of the paper.
#include "layout/zero_bubble.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "layout/schedule_times.h"
#include "tests/layout/pipelines.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Checks that each micro-batch has each action once per chunk, in order, and that all kinds process micro-batches in
/// order.
void check_complete(const std::vector<Action>& actions, int chunks, int micro_batches) {
  std::vector<std::array<int, 3>> next(static_cast<std::size_t>(chunks));  // by chunk and kind
  for (const Action& action : actions) {
    const auto kind = static_cast<std::size_t>(action.kind);
    REQUIRE(kind <= static_cast<std::size_t>(ActionKind::weight));
    REQUIRE(action.chunk < chunks);
    auto& of_chunk = next[static_cast<std::size_t>(action.chunk)];
    CHECK(action.micro_batch == of_chunk[kind]++);
    CHECK((of_chunk[0] >= of_chunk[1] && of_chunk[1] >= of_chunk[2]));
  }
  for (const auto& of_chunk : next) {
    for (int count : of_chunk) CHECK(count == micro_batches);
  }
}

/// Every place keeps at most `most` micro-batches.
std::vector<int> limits(const Places& places, int most) {
  return std::vector<int>(static_cast<std::size_t>(places.count()), most);
}

/// Places with one chunk per duration.
Places places_of(const std::vector<ActionDurations>& durations) { return {static_cast<int>(durations.size()), 1}; }

double total_of(const std::vector<std::vector<Action>>& stages, const std::vector<ActionDurations>& durations) {
  return schedule_times(stages, places_of(durations), durations).total;
}

/// The last of `stages` stages also has the output layer, which costs as much as `head` layers.
std::vector<ActionDurations> with_head(int stages, double layers, double head) {
  std::vector<ActionDurations> out(static_cast<std::size_t>(stages), ActionDurations{layers, 1.1 * layers, layers});
  out.back() = {layers + head, 1.1 * layers + head, layers + head};
  return out;
}

}  // namespace

TEST_CASE("schedules are complete, keep to their memory, and are not longer than 1F1B") {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 16; ++m) {
      for (double head : {0.0, 0.5, 2.0}) {
        CAPTURE(p);
        CAPTURE(m);
        CAPTURE(head);
        const std::vector<ActionDurations> durations = with_head(p, 1, head);
        const PipelineCase shape{.stages = p, .micro_batches = m};
        const double longest = total_of(shape.schedule(ScheduleKind::one_forward_one_backward), durations);
        for (int in_flight : {p, 2 * p - 1}) {
          const auto stages = zero_bubble(places_of(durations), durations, limits(places_of(durations), in_flight), m);
          REQUIRE(std::ssize(stages) == p);
          for (const std::vector<Action>& actions : stages) {
            check_complete(actions, 1, m);
            CHECK(max_in_flight(actions) <= in_flight);
          }
          CHECK(total_of(stages, durations) <= longest + 1e-9);
        }
      }
    }
  }
}

TEST_CASE("ZB-H1's bubble is (p - 1)(F + B - W), with the memory of 1F1B") {
  for (int p = 2; p <= 8; ++p) {
    for (int m : {2 * p, 3 * p, 4 * p + 1}) {
      for (const ActionDurations& each : {ActionDurations{1, 1, 1}, {1, 1.1, 0.9}, {1, 1.2, 0.8}}) {
        CAPTURE(p);
        CAPTURE(m);
        CAPTURE(each.backward);
        const std::vector<ActionDurations> durations(static_cast<std::size_t>(p), each);
        const double work = m * (each.forward + each.backward + each.weight);
        CHECK(total_of(zero_bubble(places_of(durations), durations, limits(places_of(durations), p), m), durations) -
                  work <=
              (p - 1) * (each.forward + each.backward - each.weight) + 1e-9);
        // With nearly twice the memory, only the first micro-batch's way to the last stage remains.
        CHECK(total_of(zero_bubble(places_of(durations), durations, limits(places_of(durations), 2 * p - 1), m),
                       durations) -
                  work <=
              (p - 1) * each.forward + 1e-9);
      }
    }
  }
}

TEST_CASE("layouts: the memory of ZB-H1 is that of 1F1B's first stage") {
  const PipelineCase shape{.stages = 4, .micro_batches = 12};
  int most = 0, most_2 = 0;
  for (const auto& actions : shape.schedule(ScheduleKind::zero_bubble_1)) most = std::max(most, max_in_flight(actions));
  for (const auto& actions : shape.schedule(ScheduleKind::zero_bubble_2))
    most_2 = std::max(most_2, max_in_flight(actions));
  CHECK(most == max_in_flight(shape.schedule(ScheduleKind::one_forward_one_backward)[0]));
  CHECK(most_2 == 7);
}

TEST_CASE("V: the memory of 1F1B, and a bubble near that of the way to the last stage for multiples of p") {
  for (int p = 2; p <= 8; ++p) {
    for (int m = 1; m <= 3 * p; ++m) {
      for (const ActionDurations& half : {ActionDurations{1, 1, 1}, {1, 1.1, 0.9}, {1, 1.2, 0.8}}) {
        CAPTURE(p);
        CAPTURE(m);
        CAPTURE(half.backward);
        const Places places{p, 2, Arrangement::vee};
        const std::vector<ActionDurations> durations(static_cast<std::size_t>(2 * p), half);
        const auto stages = zero_bubble(places, durations, limits(places, p), m);
        for (const std::vector<Action>& actions : stages) {
          check_complete(actions, 2, m);
          CHECK(max_in_flight(actions, 0) + max_in_flight(actions, 1) <= 2 * p);  // slots of half a stage
        }
        const double total = schedule_times(stages, places, durations).total,
                     work = 2 * m * (half.forward + half.backward + half.weight);
        CHECK(total <= work + (p - 1) * 6 + 1e-9);  // 1F1B
        const double h1 = (p - 1) * 2 * (half.forward + half.backward - half.weight);
        if (m >= p) CHECK(total - work <= 1.15 * h1);
        if (m > p && m % p == 0) CHECK(total - work <= 2 * (p - 1) * half.forward + 1e-9);
        if (m > p && m % p == 0 && half.backward == 1) CHECK(total - work <= (p - 1) * half.forward + 3 + 1e-9);
      }
    }
  }
}

TEST_CASE("no step keeps more micro-batches in a place than the largest step") {
  int more = 0;  // without this rule
  for (ScheduleKind kind : {ScheduleKind::zero_bubble_1, ScheduleKind::zero_bubble_2, ScheduleKind::zero_bubble_v}) {
    for (const std::vector<int>& layers :
         {std::vector{2, 2, 1, 1}, {2, 2, 2, 2}, {2, 1, 1, 0}, {2, 2, 1, 2, 2, 1}, {2, 2, 2, 2, 2, 2}}) {
      const int chunks = kind == ScheduleKind::zero_bubble_v ? 2 : 1, p = static_cast<int>(layers.size()) / chunks;
      const PipelineCase shape{.stages = p, .chunks = chunks, .durations = durations_of(layers, 1)};
      const Layout layout = shape.layout(kind);
      for (int largest : {6, 8, 9}) {
        const auto most = pipeline_schedule(layout, largest);
        for (int m = 1; m < largest; ++m) {
          CAPTURE(static_cast<int>(kind));
          CAPTURE(p);
          CAPTURE(largest);
          CAPTURE(m);
          const auto limited = pipeline_schedule(layout, m, largest), free = pipeline_schedule(layout, m);
          for (std::size_t stage = 0; stage < limited.size(); ++stage) {
            check_complete(limited[stage], layout.chunks, m);
            for (int chunk = 0; chunk < layout.chunks; ++chunk) {
              CHECK(max_in_flight(limited[stage], chunk) <= max_in_flight(most[stage], chunk));
              more += max_in_flight(free[stage], chunk) > max_in_flight(most[stage], chunk);
            }
          }
        }
      }
    }
  }
  CHECK(more > 0);
}
