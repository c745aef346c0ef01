// Schedules by printing, and by what must hold for any of them.
#include "layout/schedule.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace mtl;

TEST_CASE("1F1B: warm-up, steady state, cool-down") {
  CHECK(schedule_text(one_forward_one_backward(1, 0, 3)) == "F0 B0 F1 B1 F2 B2");
  CHECK(schedule_text(one_forward_one_backward(3, 0, 4)) == "F0 F1 F2 B0 F3 B1 B2 B3");
  CHECK(schedule_text(one_forward_one_backward(3, 2, 2)) == "F0 B0 F1 B1");
  CHECK(schedule_text(one_forward_one_backward(4, 0, 2)) == "F0 F1 B0 B1");
}

TEST_CASE("1F1B: every micro-batch once each way, in order, and no more in flight than stages are left") {
  for (int stages = 1; stages <= 6; ++stages) {
    for (int stage = 0; stage < stages; ++stage) {
      for (int m = 1; m <= 9; ++m) {
        std::vector<Action> actions = one_forward_one_backward(stages, stage, m);
        CHECK(actions.size() == static_cast<std::size_t>(2 * m));
        CHECK(max_in_flight(actions) == std::min(stages - stage, m));
        for (int i = 0; i < m; ++i) {
          auto forward = std::find(actions.begin(), actions.end(), Action{ActionKind::forward, i, 0});
          auto backward = std::find(actions.begin(), actions.end(), Action{ActionKind::backward, i, 0});
          CHECK(forward < backward);
          CHECK(backward != actions.end());
        }
      }
    }
  }
}
