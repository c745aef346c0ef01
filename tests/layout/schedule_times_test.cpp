// Schedule times, compared with formulas from the papers.
#include "layout/schedule_times.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "tests/layout/pipelines.h"

using namespace mtl;
using namespace mtl::test;

TEST_CASE("the bubble is (p - 1) / m, divided by the chunks") {
  for (int p = 1; p <= 8; ++p) {
    for (int m = p; m <= 24; m += p) {
      for (ActionDurations durations :
           {ActionDurations{1, 1, 1}, ActionDurations{1, 1, 0}, ActionDurations{2.5, 2.5, 1.5}}) {
        auto bubble = [&](ScheduleKind kind, int chunks) {
          const PipelineCase shape{.stages = p, .chunks = chunks, .micro_batches = m};
          return schedule_times(shape.schedule(kind), shape.places(),
                                std::vector<ActionDurations>(p * chunks, durations))
              .bubble();
        };
        double expected = double(p - 1) / m;
        CHECK(bubble(ScheduleKind::gpipe, 1) == doctest::Approx(expected));
        CHECK(bubble(ScheduleKind::one_forward_one_backward, 1) == doctest::Approx(expected));
        for (int chunks = 2; p > 1 && chunks <= 4; ++chunks)
          CHECK(bubble(ScheduleKind::interleaved, chunks) == doctest::Approx(expected / chunks));
      }
    }
  }
}

TEST_CASE("the total and ideal times of fewer micro-batches than stages") {
  const PipelineCase shape{.stages = 4, .micro_batches = 2};
  ScheduleTimes times = schedule_times(shape.schedule(ScheduleKind::one_forward_one_backward), shape.places());
  CHECK(times.total == 15);  // (m + p - 1) (1 + 2)
  CHECK(times.ideal == 6);
}

TEST_CASE("each action starts when its stage is free and its input has arrived") {
  auto stages = PipelineCase{.stages = 2, .micro_batches = 2}.schedule(ScheduleKind::one_forward_one_backward);
  ScheduleTimes times = schedule_times(stages, {2, 1});
  REQUIRE(schedule_text(stages[0]) == "F0 F1 B0 B1");
  REQUIRE(schedule_text(stages[1]) == "F0 B0 F1 B1");
  const double starts[2][4] = {{0, 1, 4, 7}, {1, 2, 4, 5}}, ends[2][4] = {{1, 2, 6, 9}, {2, 4, 5, 7}};
  for (std::size_t stage = 0; stage < 2; ++stage) {
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(times.spans[stage][i].start == starts[stage][i]);
      CHECK(times.spans[stage][i].end == ends[stage][i]);
    }
  }
  CHECK(times.total == 9);
  CHECK(times.bubble() == doctest::Approx(0.5));
}

TEST_CASE("stages that deadlock are refused") {
  std::vector<std::vector<Action>> stages = {{{ActionKind::forward, 0, 0}, {ActionKind::backward, 0, 0}},
                                             {{ActionKind::backward, 0, 0}, {ActionKind::forward, 0, 0}}};
  CHECK_THROWS_AS(schedule_times(stages, {2, 1}), Error);
}
