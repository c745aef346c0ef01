// Replayed steps, compared with the schedules' arithmetic, with traffic counted by plans, and with times by hand.
#include "planner/simulate.h"

#include <doctest/doctest.h>

#include "engine/memory_plan.h"
#include "engine/place_durations.h"
#include "layout/schedule_times.h"
#include "tests/gpt_of_size.h"
#include "tests/planner/planner_fixtures.h"

using namespace mtl;
using namespace mtl::test;

namespace {

RunShape shape_of(const GridSizes& sizes, std::int64_t micro_batches) {
  RunShape shape;
  shape.micro_batch = 2;
  shape.seq_length = 8;
  shape.micro_batches = micro_batches;
  shape.padded_vocab = 64;
  shape.layout.grid = RankGrid(sizes);
  return shape;
}

GptConfig model() { return gpt_of_size({.vocab = 60, .layers = 8, .hidden = 16, .heads = 4, .positions = 8}); }

std::vector<StepTrace> trace_all(const GptConfig& config, RunShape shape, ParamTraffic::Overlap overlap = {}) {
  std::vector<StepTrace> out;
  for (int stage = 0; stage < shape.layout.stages(); ++stage) {
    shape.layout.rank = shape.layout.grid.rank_at({0, 0, 0, 0, stage});
    out.push_back(trace_step(config, {}, shape, overlap));
  }
  return out;
}

void check_sums(const StepTime& time) {
  for (const StageTime& stage : time.stages)
    CHECK(stage.compute + stage.waiting() + stage.idle == doctest::Approx(time.ms).epsilon(1e-12));
}

}  // namespace

TEST_CASE("with free links, a step takes as long as its schedule says") {
  struct Case {
    ScheduleKind kind;
    int chunks;
  };
  for (const Case& each : {Case{ScheduleKind::gpipe, 1}, Case{ScheduleKind::one_forward_one_backward, 1},
                           Case{ScheduleKind::interleaved, 2}, Case{ScheduleKind::zero_bubble_1, 1},
                           Case{ScheduleKind::zero_bubble_2, 1}, Case{ScheduleKind::zero_bubble_v, 2}}) {
    for (int micro_batches : {4, 8, 12}) {
      CAPTURE(schedule_name(each.kind));
      CAPTURE(micro_batches);
      RunShape shape = shape_of({.tensor = 2, .data = 2, .pipeline = 4}, micro_batches);
      shape.layout.schedule = each.kind;
      shape.layout.chunks = each.chunks;
      shape.layout.durations = place_durations(model(), {}, shape);
      const ScheduleTimes expected =
          schedule_times(pipeline_schedule(shape.layout, micro_batches), shape.layout.places(), shape.layout.durations);
      const StepTime time = simulate_step(trace_all(model(), shape), shape.layout, 8, arithmetic_machine(), false);
      CHECK(time.ms == doctest::Approx(expected.total * 1e-9).epsilon(1e-9));
      CHECK(time.ms * 0.999 > time.stages[0].compute);
      check_sums(time);
    }
  }
}

TEST_CASE("without computation, one group's operations take the time of their bytes") {
  struct Case {
    const char* group;
    GridSizes sizes;
    int zero;
  };
  for (const Case& each :
       {Case{"data", {.data = 4}, 0}, Case{"data", {.data = 4}, 1}, Case{"data", {.data = 4}, 2},
        Case{"data", {.data = 4}, 3}, Case{"tensor", {.tensor = 4}, 0}, Case{"context", {.context = 4}, 0}}) {
    for (int node_size : {4, 2, 1}) {
      CAPTURE(each.group);
      CAPTURE(each.zero);
      CAPTURE(node_size);
      RunShape shape = shape_of(each.sizes, 6);
      shape.layout.zero = each.zero;
      const MemoryPlan plan = plan_training(model(), {}, shape);
      double bytes = 0;
      for (const GroupTraffic& traffic : plan.sent) bytes += traffic.sent.bytes;
      REQUIRE(bytes > 0);
      const StepTime time = simulate_step(trace_all(model(), shape), shape.layout, node_size, links_machine(), false);
      const double gbs = node_size == 4 ? 1 : node_size == 2 ? 0.2 : 0.1;
      CHECK(time.ms == doctest::Approx(bytes / (gbs * 1e6)).epsilon(1e-9));
      CHECK(time.stages[0].waits.at(each.group) == doctest::Approx(time.ms).epsilon(1e-9));
      check_sums(time);
    }
  }
}

TEST_CASE("overlapped reductions hide behind backward, and gathers behind the next step's forward") {
  RunShape shape = shape_of({.data = 4}, 2);
  shape.layout.zero = 1;
  shape.layout.bucket_elements = 1000;  // several
  Machine machine = arithmetic_machine();
  machine.links = {.inside_gbs = 60, .between_gbs = 60, .inside_us = 0, .between_us = 0};
  const auto wait = [&](ParamTraffic::Overlap overlap) {
    const StepTime time = simulate_step(trace_all(model(), shape, overlap), shape.layout, 8, machine, false);
    check_sums(time);
    return time.stages[0].waiting();
  };
  const double none = wait({}), reduce = wait({.reduce = true, .gather = false});
  CHECK(none > 0);
  CHECK(reduce < 0.9 * none);
  CHECK(wait({.reduce = true, .gather = true}) < 0.9 * reduce);
}

TEST_CASE("messages between stages, by hand") {
  // Two stages with one micro-batch. A forward and a backward each take 1 GFLOP, 1 ms; a message takes 4 ms.
  const TraceEvent work{.work = {.flops = 1e9, .bytes = 0}};
  Layout layout;
  layout.grid = RankGrid({.pipeline = 2});
  std::vector<StepTrace> traces(2);
  for (int stage : {0, 1}) {
    layout.rank = stage;
    StepTrace& trace = traces[static_cast<std::size_t>(stage)];
    trace.schedule = rank_schedule(layout, 1).actions;
    trace.message_bytes = 4e6;
    trace.recorded = {{{ActionKind::forward, 0, 0}, {work}}, {{ActionKind::backward, 0, 0}, {work}}};
  }
  Machine machine = arithmetic_machine();
  machine.links = {.inside_gbs = 1, .between_gbs = 0.5, .inside_us = 0, .between_us = 0};
  const StepTime time = simulate_step(traces, layout, 2, machine, false);
  CHECK(time.ms == doctest::Approx(1 + 4 + 2 + 4 + 1));
  CHECK(time.stages[0].compute == doctest::Approx(2));
  CHECK(time.stages[0].idle == doctest::Approx(6));  // until the last stage sends
  CHECK(time.stages[0].message_wait == doctest::Approx(4));
  CHECK(time.stages[1].idle == doctest::Approx(1 + 5));
  CHECK(time.stages[1].message_wait == doctest::Approx(4));
  CHECK(simulate_step(traces, layout, 1, machine, false).ms == doctest::Approx(1 + 8 + 2 + 8 + 1));
}

TEST_CASE("copies to host memory and back take the time of the link, as far as operators do not cover it") {
  RunShape shape = shape_of({}, 3);
  shape.device = Device::cuda;
  const auto step = [&](const Machine& machine) {
    const StepTime out = simulate_step(trace_all(model(), shape), shape.layout, 8, machine, false);
    check_sums(out);
    return out;
  };
  Machine slow = links_machine();
  slow.links.host_gbs = 1;  // 10^6 bytes per millisecond
  const double computes = step(arithmetic_machine()).ms;

  shape.layout.optimizer_on_host = true;
  const MemoryPlan states = plan_training(model(), {}, shape);
  CHECK(step(slow).ms == doctest::Approx(double(states.bytes(Category::optimizer, Space::host)) * 1e-6));
  CHECK(step(slow).stages[0].waits.at(kHost) == step(slow).ms);

  shape.layout.optimizer_on_host = false;
  shape.layout.offloaded_layers = kAllLayers;
  const MemoryPlan activations = plan_training(model(), {}, shape);
  CHECK(step(slow).ms == doctest::Approx(2 * 3 * double(activations.bytes(Category::offloaded)) * 1e-6));
  Machine fast = arithmetic_machine();
  CHECK(step(fast).ms == doctest::Approx(computes));
  fast.links.host_gbs = 2 * slow.links.host_gbs;
  CHECK(step(fast).ms > computes);
  CHECK(step(fast).ms < computes + step(slow).ms / 2);
}
