// Simulated steps, compared with the schedules' arithmetic, with traffic counted by plans, and with times by hand.
#include "planner/simulate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/str.h"
#include "engine/memory_plan.h"
#include "engine/place_durations.h"
#include "tests/planner/planner_fixtures.h"
#include "tests/planner/trace_fixtures.h"

using namespace mtl;
using namespace mtl::test;

namespace {

void check_sums(const StepTime& time) {
  for (const StageTime& stage : time.stages)
    CHECK(stage.compute + stage.waiting() + stage.idle == doctest::Approx(time.ms).epsilon(1e-12));
}

}  // namespace

TEST_CASE("with free links, steps have the bubbles of the papers, and compute what plans count") {
  constexpr int kStages = 4;
  struct Case {
    ScheduleKind kind;
    int chunks;
    double bubble;  // at most, if a chunk's forward, backward and weight take 1 ms each
  };
  for (const Case& each :
       {Case{ScheduleKind::gpipe, 1, 3 * (kStages - 1)},
        Case{ScheduleKind::one_forward_one_backward, 1, 3 * (kStages - 1)},
        Case{ScheduleKind::interleaved, 2, 3 * (kStages - 1)}, Case{ScheduleKind::zero_bubble_1, 1, kStages - 1},
        Case{ScheduleKind::zero_bubble_2, 1, kStages - 1}, Case{ScheduleKind::zero_bubble_v, 2, kStages - 1 + 3}}) {
    for (int micro_batches : {8, 12}) {
      CAPTURE(schedule_name(each.kind));
      CAPTURE(micro_batches);
      RunShape shape = shape_of({.tensor = 2, .data = 2, .pipeline = kStages}, micro_batches);
      shape.layout.schedule = each.kind;
      shape.layout.chunks = each.chunks;
      const std::vector<StepTrace> units =
          unit_traces(shape.layout, pipeline_schedule(shape.layout, micro_batches), micro_batches);
      const StepTime time = simulate_step(units, shape.layout, 8, arithmetic_machine(), false);
      const double work = 3.0 * micro_batches * each.chunks;
      for (const StageTime& stage : time.stages) CHECK(stage.compute == doctest::Approx(work));
      CHECK(time.ms <= (work + each.bubble) * (1 + 1e-12));
      if (!defers_weights(each.kind)) CHECK(time.ms == doctest::Approx(work + each.bubble));
      check_sums(time);

      shape.layout.durations = place_durations(small_model(), {}, shape);
      const StepTime recorded =
          simulate_step(trace_all(small_model(), shape), shape.layout, 8, arithmetic_machine(), false);
      for (int stage = 0; stage < kStages; ++stage) {  // plans count without a list of operators
        shape.layout.rank = shape.layout.grid.rank_at({.pipeline = stage});
        const double flops = plan_training(small_model(), {}, shape).step.flops;
        CHECK(recorded.stages[static_cast<std::size_t>(stage)].compute == doctest::Approx(flops * 1e-9).epsilon(1e-9));
      }
      CHECK(recorded.ms * 0.999 > recorded.stages[0].compute);
      check_sums(recorded);
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
      const MemoryPlan plan = plan_training(small_model(), {}, shape);
      double bytes = 0;
      for (const GroupTraffic& traffic : plan.sent) bytes += traffic.sent.bytes;
      REQUIRE(bytes > 0);
      const StepTime time =
          simulate_step(trace_all(small_model(), shape), shape.layout, node_size, links_machine(), false);
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
  shape.storage.bucket_elements = 1000;  // several
  Machine machine = arithmetic_machine();
  machine.links = {.inside_gbs = 60, .between_gbs = 60, .inside_us = 0, .between_us = 0};
  const auto wait = [&](ParamTraffic::Overlap overlap, int node_size = 8) {
    const StepTime time =
        simulate_step(trace_all(small_model(), shape, overlap), shape.layout, node_size, machine, false);
    check_sums(time);
    return time.stages[0].waiting();
  };
  const double none = wait({}), reduce = wait({.reduce = true, .gather = false});
  const double both = wait({.reduce = true, .gather = true});
  CHECK(none > 0);
  CHECK(reduce < 0.9 * none);
  CHECK(both < 0.9 * reduce);
  // The cores of ranks that copy themselves are busy meanwhile: between nodes, others copy.
  machine.links.by_core = true;
  CHECK(wait({}) == doctest::Approx(none));
  CHECK(wait({.reduce = true, .gather = true}) == doctest::Approx(none));
  CHECK(wait({.reduce = true, .gather = true}, 2) == doctest::Approx(both));
}

TEST_CASE("a CUDA graph ends with its last sum of sharded gradients, which nothing hides then") {
  constexpr int kMicroBatches = 6;
  Machine machine = arithmetic_machine();
  machine.links = {.inside_gbs = 60, .between_gbs = 60, .inside_us = 0, .between_us = 0};
  for (const int pipeline : {1, 2}) {
    for (const int zero : {1, 2, 3}) {
      CAPTURE(pipeline);
      CAPTURE(zero);
      RunShape shape = shape_of({.data = 4, .pipeline = pipeline}, kMicroBatches);
      shape.layout.zero = zero;
      shape.storage.bucket_elements = 1;  // a group per unit
      double ms[2] = {}, last_sum = 0;    // of the buckets of the unit whose backward comes last
      int last_unit = -1;
      for (const bool graphs : {false, true}) {
        shape.graphs = graphs;
        const std::vector<StepTrace> traces = trace_all(small_model(), shape);
        bool all_end = true;
        for (const StepTrace& trace : traces)
          for (const StepTrace::Recorded& part : trace.recorded)
            for (const TraceEvent& event : part.events) {
              all_end = all_end && !event.outlives;
              if (event.kind != TraceEvent::Kind::start) continue;
              last_sum = event.bytes / (60 * 1e6) + (event.unit == last_unit ? last_sum : 0);
              last_unit = event.unit;
            }
        CHECK(all_end == (graphs || zero == 1));
        ms[graphs] = simulate_step(traces, shape.layout, 8, machine, false).ms;
      }
      const double more = ms[true] - ms[false];
      if (zero == 1) CHECK(more == 0);
      if (zero == 2 && pipeline == 1) CHECK(more == doctest::Approx((kMicroBatches - 1) * last_sum).epsilon(1e-6));
      if (zero == 2) CHECK(more > 0.9 * (kMicroBatches - 1) * last_sum);
      if (zero == 3) CHECK(more > 0);
    }
  }
}

namespace {

/// Returns the traces of the first pipeline's stages with one micro-batch. A forward and a backward each take 1 GFLOP,
/// 1 ms; a message has 4 MB.
std::vector<StepTrace> traces_of_stages(Layout layout) {
  const TraceEvent work{.work = {.flops = 1e9, .bytes = 0}};
  std::vector<StepTrace> traces(static_cast<std::size_t>(layout.stages()));
  for (std::size_t stage = 0; stage < traces.size(); ++stage) {
    layout.rank = static_cast<int>(stage) * layout.size(Axis::data);
    traces[stage].schedule = rank_schedule(layout, 1).actions;
    traces[stage].message_bytes = 4e6;
    traces[stage].recorded = {{{ActionKind::forward, 0, 0}, {work}}, {{ActionKind::backward, 0, 0}, {work}}};
  }
  return traces;
}

}  // namespace

TEST_CASE("messages between stages, by hand") {
  Layout layout;
  layout.grid = RankGrid({.pipeline = 2});
  const std::vector<StepTrace> traces = traces_of_stages(layout);
  Machine machine = arithmetic_machine();
  machine.links = {.inside_gbs = 1, .between_gbs = 0.5, .inside_us = 0, .between_us = 0};
  const StepTime time = simulate_step(traces, layout, 2, machine, false);
  CHECK(time.ms == doctest::Approx(1 + 4 + 2 + 4 + 1));
  CHECK(time.stages[0].compute == doctest::Approx(2));
  CHECK(time.stages[0].idle == doctest::Approx(6));  // until the last stage sends
  CHECK(time.stages[0].message_wait == doctest::Approx(4));
  CHECK(time.stages[0].sent == 1);
  CHECK(time.stages[1].idle == doctest::Approx(1 + 5));
  CHECK(time.stages[1].message_wait == doctest::Approx(4));
  CHECK(simulate_step(traces, layout, 1, machine, false).ms == doctest::Approx(1 + 8 + 2 + 8 + 1));
}

TEST_CASE("operations of several stages start when the last has come to them, by hand") {
  Layout layout;
  layout.grid = RankGrid({.pipeline = 3});
  Machine machine = arithmetic_machine();
  machine.links = {.inside_gbs = 1, .between_gbs = 1, .inside_us = 0, .between_us = 0};
  for (const bool has_all : {false, true}) {
    const std::string group = has_all ? kPipelineGroup : "embedding";  // of the first and the last stage
    std::vector<StepTrace> traces = traces_of_stages(layout);
    for (std::size_t stage = 0; stage < 3; ++stage)
      if (has_all || stage != 1)
        traces[stage].update = {{.kind = TraceEvent::Kind::start, .group = group, .bytes = 2e6},
                                {.kind = TraceEvent::Kind::wait, .group = group, .started = 0}};
    Timeline timeline;
    const StepTime time = simulate_step(traces, layout, 3, machine, false, &timeline);
    check_sums(time);
    // Without the operation, the last stage ends after 12 ms, the second after 17 ms, and the first after 22 ms.
    CHECK(time.ms == doctest::Approx(22 + 2));
    CHECK(time.stages[0].waits.at(group) == doctest::Approx(2));
    CHECK(time.stages[1].waits.contains(group) == has_all);
    CHECK(time.stages[2].waits.at(group) == doctest::Approx(2));
    CHECK(time.stages[0].idle == doctest::Approx(24 - 2 - 2 - time.stages[0].message_wait));
    for (const std::size_t stage : {0, 2}) {
      const auto& lanes = timeline.stages[stage].links;
      const auto lane = std::ranges::find(lanes, group, &LinkLane::name);
      REQUIRE(lane != lanes.end());
      CHECK_FALSE(lane->between_nodes);
      CHECK(lane->spans.back().end - lane->spans.back().start == doctest::Approx(2));
    }
  }
}

TEST_CASE("operations of a group follow each other, those of two groups overlap, by hand") {
  const auto start = [](const char* group) {
    return TraceEvent{
        .kind = TraceEvent::Kind::start, .operation = OperationKind::all_gather, .group = group, .bytes = 1e6};
  };
  const auto wait = [](const char* group, int started) {
    return TraceEvent{
        .kind = TraceEvent::Kind::wait, .operation = OperationKind::all_gather, .group = group, .started = started};
  };
  Layout layout;
  layout.grid = RankGrid({.tensor = 2, .data = 2});
  StepTrace trace;
  trace.update = {start("tensor"), start("tensor"), wait("tensor", 0), wait("tensor", 1)};
  CHECK(simulate_step({trace}, layout, 4, links_machine(), false).ms == doctest::Approx(2));
  trace.update = {start("tensor"), start("data"), wait("tensor", 0), wait("data", 1)};
  CHECK(simulate_step({trace}, layout, 4, links_machine(), false).ms == doctest::Approx(1));
  // Of two that outlive the step, each wait of the next step ends one.
  trace.update = {wait("tensor", -1), wait("tensor", -1), start("tensor"), start("tensor")};
  for (TraceEvent& event : trace.update) event.outlives = event.kind == TraceEvent::Kind::start;
  CHECK(simulate_step({trace}, layout, 4, links_machine(), false).ms == doctest::Approx(2));
}

TEST_CASE("a schedule that deadlocks, and a disk whose rate is not known, are errors") {
  Layout layout;
  layout.grid = RankGrid({.pipeline = 2});
  std::vector<StepTrace> traces = traces_of_stages(layout);
  std::erase_if(traces[1].schedule, [](const Action& action) { return action.kind == ActionKind::send_backward; });
  CHECK_THROWS_WITH_AS(simulate_step(traces, layout, 2, arithmetic_machine(), false),
                       "stage 0 deadlocks in its schedule", Error);
  StepTrace trace;
  trace.update_file_bytes = 3e6;
  CHECK_THROWS_WITH_AS(simulate_step({trace}, Layout{}, 1, arithmetic_machine(), false),
                       "the rate of the disk is not known", Error);
  Machine machine = arithmetic_machine();
  machine.links.disk_gbs = 2;
  const StepTime time = simulate_step({trace}, Layout{}, 1, machine, false);
  CHECK(time.ms == doctest::Approx(1.5));
  CHECK(time.stages[0].waits.at(kFiles) == doctest::Approx(1.5));
}

TEST_CASE("recorded steps have the model's operators, by unit") {
  GptConfig config = small_model();
  config.num_layers = 2;
  RunShape shape = shape_of({.tensor = 2, .data = 2}, 6);
  const StepTrace trace = trace_step(config, {}, shape, {});
  CHECK(trace.micro_batches == 6);
  CHECK(trace.recorded_micro_batches == 4);
  // A micro-batch of the middle is recorded once.
  const int recorded_as[] = {0, 1, 2, 2, 2, 3};
  for (int micro_batch = 0; micro_batch < 6; ++micro_batch)
    CHECK(trace.recorded[trace.index_of({ActionKind::backward, micro_batch, 0})].action ==
          Action{ActionKind::backward, recorded_as[micro_batch], 0});
  CHECK_THROWS_AS(trace.index_of({ActionKind::weight, 0, 0}), Error);

  std::map<int, double> products, attention;  // FLOPs by unit
  std::map<int, std::string> operations;
  const auto add = [&](ActionKind kind) {
    for (const TraceEvent& event : trace.recorded[trace.index_of({kind, 1, 0})].events) {
      if (event.kind == TraceEvent::Kind::start) {
        operations[event.unit] += cat(name_of(event.operation), " of ", event.group, " ", event.bytes, "; ");
        CHECK_FALSE(event.outlives);
      }
      if (event.kind != TraceEvent::Kind::work) continue;
      CHECK(event.dtype == DType::f32);
      CHECK((event.name == "gemm") == (event.operator_class == OperatorClass::gemm));
      if (event.name == "gemm") {
        CHECK(event.operands.find("x16") != std::string::npos);
        products[event.unit] += event.work.flops;
      } else if (event.operator_class != OperatorClass::memory) {
        const bool is_forward = event.operator_class == OperatorClass::attention_forward;
        CHECK(event.name == (is_forward ? "attention_forward" : "attention_backward"));
        attention[event.unit] += event.work.flops;
      }
    }
  };
  // Of a rank: 16 rows; half of the products of width 16, of the MLP's 64, and of the 64 ids. The output layer does all
  // its work in backward.
  const double layer = 2 * 16 * (16 * 48 + 16 * 16 + 2 * 16 * 64) / 2.0, head = 2 * 16 * 16 * 64 / 2.0;
  const std::string sum = "all-reduce of tensor 1024; ", rows = "all-gather of tensor 192; ";
  add(ActionKind::forward);
  CHECK(products == std::map<int, double>{{1, layer}, {2, layer}});
  CHECK(operations == std::map<int, std::string>{{0, sum}, {1, sum + sum}, {2, sum + sum}});
  operations.clear();
  add(ActionKind::backward);
  CHECK(products == std::map<int, double>{{1, 3 * layer}, {2, 3 * layer}, {3, 3 * head}});
  CHECK(operations == std::map<int, std::string>{{1, sum + sum}, {2, sum + sum}, {3, rows + sum}});
  CHECK(attention.size() == 2);
  CHECK(attention[1] == attention[2]);
}

TEST_CASE("a message takes as long as in the slowest pipeline") {
  // Of two pipelines over three stages, in nodes of three ranks, only the second leaves its node after the first stage,
  // and only the first after the second.
  Layout layout;
  layout.grid = RankGrid({.data = 2, .pipeline = 3});
  const std::vector<StepTrace> traces = traces_of_stages(layout);
  Machine machine = arithmetic_machine();
  machine.links = {.inside_gbs = 1, .between_gbs = 0.5, .inside_us = 0, .between_us = 0};
  CHECK(simulate_step(traces, layout, 6, machine, false).ms == doctest::Approx(6 + 4 * 4));
  CHECK(simulate_step(traces, layout, 3, machine, false).ms == doctest::Approx(6 + 4 * 8));
}

TEST_CASE("receives around a ring end with the sends that they meet, by hand") {
  const auto start = [](OperationKind operation, double bytes) {
    return TraceEvent{.kind = TraceEvent::Kind::start, .operation = operation, .group = "context", .bytes = bytes};
  };
  const auto wait = [](int started) {
    return TraceEvent{
        .kind = TraceEvent::Kind::wait, .operation = OperationKind::receive, .group = "context", .started = started};
  };
  // A message takes 1 ms, the next one 3 ms.
  StepTrace trace;
  trace.update = {start(OperationKind::send, 1e6), start(OperationKind::receive, 0), wait(1),
                  start(OperationKind::send, 3e6), start(OperationKind::receive, 0), wait(4)};
  Layout layout;
  layout.grid = RankGrid({.context = 2});
  CHECK(simulate_step({trace}, layout, 2, links_machine(), false).ms == doctest::Approx(1 + 3));
}

TEST_CASE("copies to host memory and back take the time of the link, as far as operators do not cover it") {
  RunShape shape = shape_of({}, 3);
  shape.device = Device::cuda;
  const auto step = [&](const Machine& machine) {
    const StepTime out = simulate_step(trace_all(small_model(), shape), shape.layout, 8, machine, false);
    check_sums(out);
    return out;
  };
  Machine slow = links_machine();
  slow.links.host_gbs = 1;  // 10^6 bytes per millisecond
  const double computes = step(arithmetic_machine()).ms;

  shape.storage.optimizer_on_host = true;
  const MemoryPlan states = plan_training(small_model(), {}, shape);
  CHECK(step(slow).ms == doctest::Approx(double(states.bytes(Category::optimizer, Space::host)) * 1e-6));
  CHECK(step(slow).stages[0].waits.at(kHost) == step(slow).ms);

  shape.storage.optimizer_on_host = false;
  shape.offloaded_layers = kAllLayers;
  const MemoryPlan activations = plan_training(small_model(), {}, shape);
  CHECK(step(slow).ms == doctest::Approx(2 * 3 * double(activations.bytes(Category::offloaded)) * 1e-6));
  Machine fast = arithmetic_machine();
  CHECK(step(fast).ms == doctest::Approx(computes));
  fast.links.host_gbs = 2 * slow.links.host_gbs;
  CHECK(step(fast).ms > computes);
  CHECK(step(fast).ms < computes + step(slow).ms / 2);
}

TEST_CASE("timelines: spans follow each other and add up to every stage's time") {
  bool gathers_in_background = false;  // until after the step's end
  SUBCASE("one after another") {}
  SUBCASE("gathers that outlive the step") { gathers_in_background = true; }
  RunShape shape = shape_of({.tensor = 2, .data = 2, .pipeline = 4}, 6);
  shape.layout.zero = gathers_in_background ? 1 : 0;
  Machine machine = arithmetic_machine();
  machine.links = {.inside_gbs = 60, .between_gbs = 20, .inside_us = 1, .between_us = 2};
  const std::vector<StepTrace> traces =
      trace_all(small_model(), shape, {.reduce = gathers_in_background, .gather = gathers_in_background});
  Timeline timeline;
  const StepTime time = simulate_step(traces, shape.layout, 2, machine, false, &timeline);
  CHECK(time.ms == simulate_step(traces, shape.layout, 2, machine, false).ms);
  REQUIRE(timeline.stages.size() == 4);
  CHECK(timeline.ms >= time.ms);
  for (std::size_t stage = 0; stage < 4; ++stage) {
    CAPTURE(stage);
    double at = 0, compute = 0, waits = 0;
    std::set<int> forwards;
    for (const StageSpan& span : timeline.stages[stage].spans) {
      CHECK(span.start == doctest::Approx(at).epsilon(1e-9));
      CHECK(span.end > span.start);
      at = span.end;
      if (span.computes()) compute += span.end - span.start;
      if (span.kind == StageSpan::Kind::wait) waits += span.end - span.start;
      if (span.kind == StageSpan::Kind::forward) forwards.insert(span.micro_batch);
    }
    CHECK(at == doctest::Approx(timeline.ms).epsilon(1e-12));
    CHECK(compute == doctest::Approx(time.stages[stage].compute).epsilon(1e-9));
    CHECK(waits == doctest::Approx(time.stages[stage].waiting()).epsilon(1e-9));
    CHECK(forwards.size() == 6);
    // Operations of a group do not overlap, and take as long as the group's ranks at least wait for them.
    std::set<std::string> lanes;
    for (const LinkLane& lane : timeline.stages[stage].links) {
      lanes.insert(lane.name);
      CHECK(lane.between_nodes == (lane.name != "tensor"));
      double end = 0, used = 0;
      for (const TimeSpan& span : lane.spans) {
        if (lane.name != kMessages) CHECK(span.start >= end - 1e-9);
        CHECK(span.end <= timeline.ms * (1 + 1e-12));
        end = span.end;
        used += span.end - span.start;
      }
      if (lane.name != kMessages) CHECK(used >= time.stages[stage].waits.at(lane.name) * (1 - 1e-9));
    }
    CHECK(lanes.contains("tensor"));
    CHECK(lanes.contains("data"));
    CHECK(lanes.contains(kMessages));
  }
}
