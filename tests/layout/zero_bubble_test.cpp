// Zero-bubble schedules: complete, within their memory, and as short as the hand-made schedules of the paper.
#include "layout/zero_bubble.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "layout/schedule_times.h"
#include "tests/layout/pipelines.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Checks that each micro-batch has each action once, in order, and that all kinds process micro-batches in order.
void check_complete(const std::vector<Action>& actions, int micro_batches) {
  int next[3] = {};
  for (const Action& action : actions) {
    const auto kind = static_cast<std::size_t>(action.kind);
    REQUIRE(kind <= static_cast<std::size_t>(ActionKind::weight));
    CHECK(action.chunk == 0);
    CHECK(action.micro_batch == next[kind]++);
    CHECK((next[0] >= next[1] && next[1] >= next[2]));
  }
  for (int count : next) CHECK(count == micro_batches);
}

double total_of(const std::vector<std::vector<Action>>& stages, const std::vector<ActionDurations>& durations) {
  return schedule_times(stages, {static_cast<int>(stages.size()), 1}, durations).total;
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
          const auto stages = zero_bubble(durations, in_flight, m);
          REQUIRE(std::ssize(stages) == p);
          for (const std::vector<Action>& actions : stages) {
            check_complete(actions, m);
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
        CHECK(total_of(zero_bubble(durations, p, m), durations) - work <=
              (p - 1) * (each.forward + each.backward - each.weight) + 1e-9);
        // With nearly twice the memory, only the first micro-batch's way to the last stage remains.
        CHECK(total_of(zero_bubble(durations, 2 * p - 1, m), durations) - work <= (p - 1) * each.forward + 1e-9);
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
  CHECK(most == max_in_flight(one_forward_one_backward(4, 0, 12)));
  CHECK(most_2 == 7);
}
