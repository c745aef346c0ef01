// Schedule times, compared with formulas from the papers.
#include "layout/schedule_times.h"

#include <doctest/doctest.h>

#include "tests/error_of.h"
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
  const auto forward = [](int micro_batch, int chunk = 0) { return Action{ActionKind::forward, micro_batch, chunk}; };
  const auto backward = [](int micro_batch, int chunk = 0) { return Action{ActionKind::backward, micro_batch, chunk}; };
  const auto fault = [](const std::vector<std::vector<Action>>& stages, const Places& places) {
    return error_of([&] { schedule_times(stages, places); });
  };
  const std::vector<Action> one = {forward(0), backward(0)}, two = {forward(0), forward(1), backward(0), backward(1)};
  const std::string stage_0 = "stage 0 deadlocks in its schedule", stage_1 = "stage 1 deadlocks in its schedule";
  CHECK(fault({one, {}}, {2, 1}) == stage_0);
  CHECK(fault({one, {backward(0), forward(0)}}, {2, 1}) == stage_1);
  // A receive takes the message that was sent first.
  CHECK(fault({two, {forward(1), forward(0), backward(0), backward(1)}}, {2, 1}) == stage_0);
  // Chunks of one stage exchange no messages.
  const std::vector<Action> first = {forward(0, 0), forward(0, 1), backward(0, 1), backward(0, 0)};
  const Places vee = {2, 2, Arrangement::vee};
  CHECK(schedule_times({first, first}, vee).total == 12);
  CHECK(fault({first, {forward(0, 1), forward(0, 0), backward(0, 1), backward(0, 0)}}, vee) == stage_1);
  CHECK(fault({first, {forward(0, 0), forward(0, 1), backward(0, 0), backward(0, 1)}}, vee) == stage_1);
}
