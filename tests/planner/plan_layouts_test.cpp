// The search for layouts: it finds what trying every candidate finds, and its bounds are bounds.
#include "planner/plan_layouts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>

#include "base/str.h"
#include "engine/rank_plans.h"
#include "layout/schedule.h"
#include "planner/layout_report.h"
#include "planner/plan_report.h"
#include "planner/step_bound.h"
#include "tests/gpt_of_size.h"
#include "tests/planner/planner_fixtures.h"
#include "train/run_plan.h"

using namespace mtl;
using namespace mtl::test;

namespace {

PlanRequest request_for(std::int64_t world, double gigabytes) {
  PlanRequest out{.run = {},
                  .config = gpt_of_size({.vocab = 1000, .layers = 4, .hidden = 1024, .heads = 4, .positions = 128}),
                  .machine = *find_machine("H100"),
                  .node_size = 2,
                  .device_bytes = gigabytes * 1e9};
  out.run.parallel.world = world;
  out.run.batch.global_batch_size = 16;
  out.run.data.seq_length = 128;
  out.run.device = Device::cuda;
  out.run.dry_run = true;
  out.run.threads = 1;
  out.run.precision.bf16 = true;
  return out;
}

/// The memory of the ranks that need the most.
struct RunBytes {
  std::size_t scarce = 0, host = 0;
};
RunBytes memory_of(const TrainOptions& options, const GptConfig& config) {
  const std::vector<RankPlan> plans = plan_run(options, config);
  const MemoryPlan& largest = largest_plan(plans).plan;
  RunBytes out{.scarce = largest.total_bytes(largest.scarce_space())};
  for (const RankPlan& each : plans) out.host = std::max(out.host, each.plan.total_bytes(Space::host));
  return out;
}

std::size_t bytes_of(const TrainOptions& options, const GptConfig& config) { return memory_of(options, config).scarce; }

double ms_of(const TrainOptions& options, const PlanRequest& request) {
  const RunShape shape = run_shape(options, request.config, 0);
  const auto schedule = pipeline_schedule(shape.layout, static_cast<int>(shape.micro_batches));
  const auto traces = trace_stages(request.config, run_dropout(options), shape, run_overlap(options), schedule);
  return simulate_step(traces, shape.layout, request.node_size, request.machine, options.tf32).ms;
}

/// Tells `bounds` the plans of a choice.
void learn(StepBounds& bounds, const LayoutChoice& choice, const PlanRequest& request) {
  const TrainOptions options = choice.options(request.run);
  const RunShape shape = run_shape(options, request.config, 0);
  const auto schedule = pipeline_schedule(shape.layout, static_cast<int>(shape.micro_batches));
  bounds.learn(choice, plan_largest_ranks(request.config, run_dropout(options), shape, schedule));
}

/// How close bounds are to what they bound.
class Tightness {
 public:
  void add(double bound, double value) {
    sum_ += bound / value;
    ++count_;
  }
  double mean() const { return sum_ / count_; }

 private:
  double sum_ = 0, count_ = 0;
};

/// A request with random sizes, links and devices.
PlanRequest random_request(std::mt19937& random) {
  const auto one_of = [&](std::initializer_list<std::int64_t> values) {
    return *(values.begin() + random() % values.size());
  };
  PlanRequest out = request_for(one_of({2, 4, 6}), 80);
  const GptSizes sizes{.vocab = one_of({1000, 20000}),
                       .layers = one_of({3, 4, 6}),
                       .hidden = one_of({256, 512}),
                       .heads = 4,
                       .positions = 512};
  out.config = random() % 2 == 0 ? gpt_of_size(sizes) : llama_of_size(sizes);
  if (random() % 3 == 0) {
    out.config.sliding_window = 64;
    out.config.first_window_layer = one_of({0, 2});
  }
  out.run.data.seq_length = one_of({128, 512});
  out.run.batch.global_batch_size = one_of({6, 12});
  out.node_size = static_cast<int>(one_of({1, 2, 8}));
  out.machine.links.between_gbs = double(one_of({1, 10, 50}));
  out.machine.links.host_gbs = double(one_of({1, 64}));
  out.machine.links.disk_gbs = double(one_of({0, 0, 3}));
  out.machine.launch_us = double(one_of({0, 10}));
  if (random() % 3 != 0) return out;
  // CPUs with measured times
  const auto times = std::make_shared<OperatorTimes>(times_of(kProfile));
  out.run.device = Device::cpu;
  out.run.precision.bf16 = false;
  out.machine = {.device = times->device(), .links = out.machine.links};
  out.machine.links.by_core = true;
  out.machine.use(times, DType::f32, false);
  return out;
}

}  // namespace

TEST_CASE("plans: the layouts that are considered") {
  PlanRequest request = request_for(4, 80);
  const auto counts = [&] {
    std::map<std::string, std::int64_t> out;  // layouts, by what they have
    std::size_t last = SIZE_MAX;
    for (const LayoutChoice& each : layout_choices(request)) {
      ++out["candidates"];
      if (each.layout == last) continue;
      last = each.layout;
      ++out["layouts"];
      ++out[cat("tp", each.tensor, " cp", each.context, " pp", each.pipeline)];
      if (each.pipeline > 1) ++out[cat(schedule_name(each.schedule), " ", each.chunks)];
      if (each.is_balanced) ++out["balanced"];
      if (each.sequence_parallel) ++out["sequence parallel"];
      ++out[cat("zero", each.zero)];
      ++out[cat("micro-batch ", each.micro_batch)];
    }
    std::string text;
    for (const auto& [what, count] : out) text += cat(what, ": ", count, "; ");
    return text;
  };
  CHECK(counts() ==
        "1f1b 1: 54; balanced: 135; candidates: 2160; gpipe 1: 54; interleaved 2: 34; layouts: 324; "
        "micro-batch 1: 76; micro-batch 16: 30; micro-batch 2: 76; micro-batch 4: 76; micro-batch 8: 66; "
        "sequence parallel: 79; tp1 cp1 pp1: 12; tp1 cp1 pp2: 114; tp1 cp1 pp4: 40; tp2 cp1 pp1: 32; tp2 "
        "cp1 pp2: 116; tp4 cp1 pp1: 10; zb-h1 1: 46; zb-h2 1: 46; zb-v 2: 36; zero0: 223; zero1: 57; "
        "zero2: 33; zero3: 11; ");
  request.config.num_heads = 3;  // which 2 and 4 ranks do not divide
  request.run.batch.global_batch_size = 12;
  request.machine.links.disk_gbs = 1;
  CHECK(counts() ==
        "1f1b 1: 18; balanced: 39; candidates: 762; gpipe 1: 18; interleaved 2: 6; layouts: 82; "
        "micro-batch 1: 42; micro-batch 2: 32; micro-batch 4: 8; tp1 cp1 pp1: 4; tp1 cp1 pp2: 54; tp1 "
        "cp1 pp4: 24; zb-h1 1: 14; zb-h2 1: 14; zb-v 2: 8; zero0: 47; zero1: 23; zero2: 11; zero3: 1; ");
  request.fixed = {.tensor = 1,
                   .context = 1,
                   .pipeline = 2,
                   .micro_batch = 3,
                   .zero_stage = 1,
                   .schedule = "interleaved",
                   .chunks = 2,
                   .recompute = "selective"};
  CHECK(counts() ==
        "balanced: 1; candidates: 6; interleaved 2: 2; layouts: 2; micro-batch 3: 2; tp1 cp1 pp2: 2; "
        "zero1: 2; ");
  CHECK(
      join(request.fixed.flags(), " ") ==
      "--tensor-model-parallel-size 1 --context-parallel-size 1 --pipeline-model-parallel-size 2 --schedule "
      "interleaved "
      "--num-virtual-stages-per-pipeline-rank 2 --zero-stage 1 --micro-batch-size 3 --recompute-granularity selective");
  request.fixed.micro_batch = 5;
  CHECK(counts() == "");
}

TEST_CASE("plans: each fixed flag alone keeps the layouts that have it, and flags without an axis do not matter") {
  PlanRequest request = request_for(4, 80);
  request.run.data.seq_length = request.config.max_positions = 512;  // for two context-parallel ranks
  const std::vector<LayoutChoice> all = layout_choices(request);
  using Fixed = FixedLayout;
  using Choice = LayoutChoice;
  const std::pair<void (*)(Fixed&), bool (*)(const Choice&)> cases[] = {
      {[](Fixed& f) { f.tensor = 2; }, [](const Choice& c) { return c.tensor == 2; }},
      {[](Fixed& f) { f.context = 2; }, [](const Choice& c) { return c.context == 2; }},
      {[](Fixed& f) { f.pipeline = 2; }, [](const Choice& c) { return c.pipeline == 2; }},
      {[](Fixed& f) { f.micro_batch = 2; }, [](const Choice& c) { return c.micro_batch == 2; }},
      {[](Fixed& f) { f.zero_stage = 1; }, [](const Choice& c) { return c.zero == 1 || c.tensor * c.pipeline == 4; }},
      {[](Fixed& f) { f.schedule = "gpipe"; },
       [](const Choice& c) { return c.schedule == ScheduleKind::gpipe || c.pipeline == 1; }},
      {[](Fixed& f) { f.chunks = 2; }, [](const Choice& c) { return c.chunks == 2 || c.pipeline == 1; }},
      {[](Fixed& f) { f.recompute = "none"; },
       [](const Choice& c) { return !c.has(Saving::recompute_layers) && !c.has(Saving::recompute_attention); }},
      {[](Fixed& f) { f.recompute = "full"; }, [](const Choice& c) { return c.has(Saving::recompute_layers); }},
  };
  for (const auto& [fix, has] : cases) {
    request.fixed = {};
    fix(request.fixed);
    CAPTURE(join(request.fixed.flags(), " "));
    const auto kept = std::ranges::count_if(all, has);
    CHECK(kept > 0);
    CHECK(std::ssize(layout_choices(request)) == kept);
  }
  for (const LayoutChoice& each : all) {
    const ParallelOptions parallel = each.options(request.run).parallel;
    CHECK(parallel.schedule.has_value() == (each.pipeline > 1));
    CHECK(parallel.overlap_grad_reduce == (each.tensor * each.pipeline < 4));
    CHECK(parallel.overlap_param_gather == (each.tensor * each.pipeline < 4 && each.zero > 0));
  }
}

TEST_CASE("plans: of two layouts, one saves no more than the other if it recomputes and offloads no more") {
  const auto with = [](std::initializer_list<Saving> savings) {
    LayoutChoice out;
    for (const Saving saving : savings) out.savings |= 1U << enum_index(saving);
    return out;
  };
  const LayoutChoice none, attention = with({Saving::recompute_attention}), layers = with({Saving::recompute_layers}),
                           host = with({Saving::offload_optimizer}),
                           both = with({Saving::offload_optimizer, Saving::recompute_attention});
  const std::vector<LayoutChoice> all = {none, attention, layers, host, both};
  std::string table;
  for (const LayoutChoice& one : all) {
    for (const LayoutChoice& other : all) table += one.saves_no_more_than(other) ? '1' : '0';
    table += ' ';
  }
  CHECK(table == "11111 01101 00100 00011 00001 ");
}

TEST_CASE("plans: the search finds the fastest of all layouts that fit") {
  std::mt19937 random(7);
  Tightness memory, host, time;
  std::size_t planned = 0;
  for (int round = 0; round < 6; ++round) {
    CAPTURE(round);
    PlanRequest request = random_request(random);
    const std::vector<LayoutChoice> choices = layout_choices(request);
    // Every candidate, and what is fastest with the same grid, schedule and ZeRO stage.
    GroupPlaces places(request);
    StepBounds bounds(request, places);
    std::vector<std::size_t> bytes;
    for (const LayoutChoice& choice : choices) {
      const RunBytes needed = memory_of(choice.options(request.run), request.config);
      bytes.push_back(needed.scarce);
      CHECK(bounds.least_bytes(choice) <= double(bytes.back()));
      CHECK(bounds.least_host_bytes(choice) <= double(needed.host));
      if (needed.host > 0) host.add(bounds.least_host_bytes(choice), double(needed.host));
      if (choice.savings == 0) learn(bounds, choice, request);
    }
    std::vector<std::size_t> sorted = bytes;
    std::ranges::sort(sorted);
    request.device_bytes = double(sorted[sorted.size() / 3]);
    std::map<std::tuple<int, int, int, int, int>, double> fastest;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const LayoutChoice& choice = choices[i];
      CAPTURE(i);
      CHECK(bounds.least_bytes(choice) <= double(bytes[i]));
      memory.add(bounds.least_bytes(choice), double(bytes[i]));
      if (double(bytes[i]) > request.device_bytes) continue;
      bool fits_with_fewer = false;
      for (std::size_t other = 0; other < choices.size(); ++other)
        fits_with_fewer = fits_with_fewer ||
                          (other != i && choices[other].layout == choice.layout &&
                           double(bytes[other]) <= request.device_bytes && choices[other].saves_no_more_than(choice));
      if (fits_with_fewer) continue;
      const double ms = ms_of(choice.options(request.run), request);
      CHECK(bounds.least_ms(choice) <= ms);
      time.add(bounds.least_ms(choice), ms);
      const auto [at, is_new] =
          fastest.try_emplace({choice.tensor, choice.context, choice.pipeline, int(choice.schedule), choice.zero}, ms);
      at->second = std::min(at->second, ms);
    }
    std::vector<double> expected;
    for (const auto& [kind, ms] : fastest) expected.push_back(ms);
    std::ranges::sort(expected);
    expected.resize(std::min<std::size_t>(expected.size(), 3));
    const LayoutPlans found = plan_layouts(request, 3);
    std::vector<double> times;
    for (const Candidate& each : found.best) {
      const RunBytes needed = memory_of(each.options, request.config);
      CHECK(each.host_bytes == needed.host);
      CHECK(each.bytes == needed.scarce);
      CHECK(each.bound_ms <= each.time->ms);
      times.push_back(each.time->ms);
    }
    CHECK(times == expected);
    CHECK(found.planned < found.candidates);
    planned += found.planned;
    for (const Candidate& each : found.too_large) {
      CHECK(savings_text(each).empty());
      CHECK(double(each.bytes) > request.device_bytes);
      CHECK(each.bound_ms < times.front());
    }
  }
  // The closer the bounds, the less is planned. With CUDA, operators need more memory that no bound knows.
  CHECK(memory.mean() > 0.45);
  CHECK(host.mean() > 0.62);
  CHECK(time.mean() > 0.76);
  CHECK(planned < 1700);
}

TEST_CASE("plans: differences are where a layout loses time, and add up to what it loses") {
  PlanRequest request = request_for(4, 80);
  request.machine.links.between_gbs = 1;
  const LayoutPlans plans = plan_layouts(request);
  REQUIRE(plans.best.size() > 1);
  const auto lost = [&](const Candidate& slower, const Candidate& faster) {
    double sum = 0, last = INFINITY;
    for (const Difference& each : differences(slower, faster, request)) {
      CHECK(each.ms > 0);
      CHECK(each.ms <= last);
      sum += last = each.ms;
    }
    return sum;
  };
  const Candidate& best = plans.best[0];
  CHECK(differences(best, best, request).empty());
  for (const Candidate& other : plans.best) {
    const double gained = lost(best, other);
    CHECK(lost(other, best) - gained == doctest::Approx(other.time->ms - best.time->ms).epsilon(1e-9));
  }
}

TEST_CASE("plans: bounds hold where links between nodes are the faster ones") {
  PlanRequest request = request_for(6, 80);
  request.config.num_layers = 3;
  request.run.batch.global_batch_size = 6;
  request.machine.links = {.inside_gbs = 1, .between_gbs = 50, .inside_us = 1000, .between_us = 0};
  Tightness time;
  for (int node_size : {1, 2, 3}) {
    request.node_size = node_size;
    GroupPlaces places(request);
    StepBounds bounds(request, places);
    double best = INFINITY;
    for (const LayoutChoice& choice : layout_choices(request)) {
      if (choice.savings != 0) continue;
      CAPTURE(join(candidate_flags({.options = choice.options(request.run)}), " "));
      const double ms = ms_of(choice.options(request.run), request);
      CHECK(bounds.least_ms(choice) <= ms);
      time.add(bounds.least_ms(choice), ms);
      best = std::min(best, ms);
    }
    CHECK(plan_layouts(request, 1).best[0].time->ms == best);
  }
  CHECK(time.mean() > 0.799);
}

TEST_CASE("plans: bounds hold where stages are cheaper than a model without replicas, on one node, shows") {
  struct Row {
    const char* why;
    std::int64_t world, layers, hidden;
    int node_size;
    double gbs;
    double least;             // the mean bound, as a share of the time
    std::int64_t bucket = 0;  // elements; 0: the default
    bool is_tied = true;
    std::int64_t window = 0;  // of all layers; 0: none
  };
  for (const Row& row : std::initializer_list<Row>{
           {"a tensor-parallel group on two nodes overlaps copies, which cores make within a node", 4, 3, 256, 3, 50,
            0.785},
           {"gradients in the ring are overwritten by each micro-batch", 6, 4, 1024, 6, 1000, 0.860},
           {"the ring holds parameters from one pass to the next", 6, 2, 1024, 6, 3, 0.784},
           {"the ring holds groups of several layers", 4, 6, 256, 4, 0.3, 0.774, 1'000'000, false},
           {"layers in the group of a tied embedding are reduced once a step", 4, 6, 256, 4, 3, 0.742, 1'000'000},
           {"a layer with a window is the largest unit", 6, 2, 1024, 6, 3, 0.784, 0, true, 64},
       }) {
    PlanRequest request = request_for(row.world, 80);
    request.config =
        gpt_of_size({.vocab = 100, .layers = row.layers, .hidden = row.hidden, .heads = 4, .positions = 512});
    request.config.tied_embeddings = row.is_tied;
    request.config.sliding_window = row.window;
    request.config.first_window_layer = 0;
    request.run.batch.global_batch_size = 12;
    request.run.data.seq_length = 512;
    if (row.bucket > 0) request.run.parallel.bucket_elements = row.bucket;
    request.machine.links = {.inside_gbs = row.gbs, .between_gbs = row.gbs, .inside_us = 0, .between_us = 0};
    request.machine.links.by_core = row.node_size < row.world;
    request.node_size = row.node_size;
    GroupPlaces places(request);
    StepBounds bounds(request, places);
    Tightness time;
    for (const LayoutChoice& choice : layout_choices(request)) {
      if (choice.savings != 0) continue;
      CAPTURE(std::string(row.why));
      CAPTURE(join(candidate_flags({.options = choice.options(request.run)}), " "));
      const double ms = ms_of(choice.options(request.run), request);
      CHECK(bounds.least_ms(choice) <= ms);
      time.add(bounds.least_ms(choice), ms);
    }
    CHECK(time.mean() > row.least);
  }
}

TEST_CASE("plans: bounds are close to the step's time where only FLOPs, only bytes or only links take time") {
  Machine bytes = links_machine();
  bytes.links = Links::free();
  bytes.device.dram_gbs = 1;
  struct Row {
    const char* what;
    Machine machine;
    bool is_tied;
    double one_stage, in_ring, several;  // the least bound as a share of the time; in_ring: of ZeRO stages 2 and 3
    double mean;
  };
  for (const Row& row : {Row{"FLOPs", arithmetic_machine(), true, 1, 1, 1, 0.962},
                         {"bytes", bytes, true, 0.9996, 0.707, 0.629, 0.868},
                         {"links", links_machine(), true, 0.925, 0.775, 0.012, 0.566},
                         {"links, untied", links_machine(), false, 0.926, 0.811, 0.018, 0.643}}) {
    PlanRequest request = request_for(4, 80);
    request.machine = row.machine;
    request.config.tied_embeddings = row.is_tied;
    GroupPlaces places(request);
    StepBounds bounds(request, places);
    Tightness all;
    for (const LayoutChoice& choice : layout_choices(request)) {
      if (choice.savings > 3) continue;  // with offloading
      CAPTURE(std::string(row.what));
      CAPTURE(join(candidate_flags({.options = choice.options(request.run)}), " "));
      const double least = bounds.least_ms(choice), ms = ms_of(choice.options(request.run), request);
      CHECK(least <= ms);
      all.add(least, ms);
      if (defers_weights(choice.schedule)) continue;
      const double share = choice.pipeline > 1 ? row.several : choice.zero < 2 ? row.one_stage : row.in_ring;
      CHECK(least >= share * ms * (1 - 1e-6));
    }
    CAPTURE(std::string(row.what));
    CHECK(all.mean() > row.mean);
  }
}

TEST_CASE("plans: bounds hold for models so small that the work beside their parameters counts") {
  std::mt19937 random(11);
  Tightness time;
  for (int round = 0; round < 6; ++round) {
    const auto one_of = [&](std::initializer_list<std::int64_t> values) {
      return *(values.begin() + random() % values.size());
    };
    PlanRequest request = request_for(one_of({1, 2, 4}), 80);
    const GptSizes sizes{.vocab = one_of({100, 1000}),
                         .layers = one_of({4, 8, 24}),
                         .hidden = one_of({16, 64, 128}),
                         .heads = 4,
                         .positions = 64};
    request.config = round % 2 == 0 ? gpt_of_size(sizes) : llama_of_size(sizes);
    request.machine = *find_machine(round % 3 == 0 ? "H100" : "A100");
    request.run.data.seq_length = 64;
    request.run.batch.global_batch_size = 8;
    request.run.hidden_dropout = request.run.attention_dropout = 0;
    GroupPlaces places(request);
    StepBounds bounds(request, places);
    for (const LayoutChoice& choice : layout_choices(request)) {
      CAPTURE(round);
      CAPTURE(join(candidate_flags({.options = choice.options(request.run)}), " "));
      const double ms = ms_of(choice.options(request.run), request);
      CHECK(bounds.least_ms(choice) <= ms);
      time.add(bounds.least_ms(choice), ms);
    }
  }
  CHECK(time.mean() > 0.494);
}

TEST_CASE("plans: ranks that share sequences have at least 128 positions in each of their two chunks") {
  PlanRequest request = request_for(2, 80);
  const auto shares_sequences = [&](std::int64_t length) {
    request.config.max_positions = request.run.data.seq_length = length;
    return std::ranges::any_of(layout_choices(request), [](const LayoutChoice& each) { return each.context == 2; });
  };
  CHECK(shares_sequences(512));
  CHECK_FALSE(shares_sequences(508));
}

TEST_CASE("plans: savings come only when they are needed") {
  const PlanRequest roomy = request_for(4, 80);
  const LayoutPlans plans = plan_layouts(roomy);
  REQUIRE(!plans.best.empty());
  for (const Candidate& each : plans.best) CHECK(!each.options.parallel.recompute_granularity);
  std::size_t least = plans.best[0].bytes;
  for (const Candidate& each : plans.best) least = std::min(least, each.bytes);
  const LayoutPlans tight = plan_layouts(request_for(4, double(least - 1) * 1e-9));
  REQUIRE(!tight.best.empty());
  for (const Candidate& each : tight.best) CHECK(each.bytes < least);
  CHECK(tight.best[0].time->ms > plans.best[0].time->ms);
  CHECK(!tight.too_large.empty());
}

TEST_CASE("plans: if nothing fits, the layouts that need the least memory are named") {
  const PlanRequest request = request_for(4, 0.001);
  const LayoutPlans plans = plan_layouts(request);
  CHECK(plans.best.empty());
  CHECK(plans.fitting == 0);
  REQUIRE(plans.too_large.size() == 5);
  CHECK(plans.too_large[0].bytes <= plans.too_large[4].bytes);
  std::size_t least = plans.too_large[0].bytes;
  for (const LayoutChoice& choice : layout_choices(request))
    least = std::min(least, bytes_of(choice.options(request.run), request.config));
  CHECK(plans.too_large[0].bytes == least);
}

TEST_CASE("plans: a search that is ended has the best of what it has simulated") {
  const PlanRequest request = request_for(8, 80);
  const LayoutPlans whole = plan_layouts(request, 2);
  std::size_t calls = 0;
  const LayoutPlans ended = plan_layouts(request, 2, [&](const LayoutPlans& so_far) {
    ++calls;
    return so_far.simulated < 2;
  });
  CHECK(whole.is_complete);
  CHECK(whole.candidates < layout_choices(request).size());  // without balanced splits that are the even one
  CHECK(!ended.is_complete);
  CHECK(ended.simulated == 2);
  CHECK(ended.best.size() == 2);
  CHECK(ended.too_large.empty());
  CHECK(calls > 2);
  CHECK(ended.best[0].time->ms >= whole.best[0].time->ms);
  CHECK(plan_text(ended, request).find("; ended before all were looked at, so others may be faster\n") !=
        std::string::npos);
  const auto number = [](std::size_t count) { return with_commas(static_cast<std::int64_t>(count)); };
  CHECK(progress_text(ended) == cat("planned ", number(ended.planned), " of at most ", number(ended.bounded),
                                    " layouts; the fastest so far takes ", format("%.2f", ended.best[0].time->ms),
                                    " ms: ", layout_text(ended.best[0])));
  const LayoutPlans at_once = plan_layouts(request, 2, [](const LayoutPlans&) { return false; });
  CHECK(progress_text(at_once) == "planned 0 of at most 0 layouts");
}

TEST_CASE("plans: a host that no layout fits on is found out without planning them all") {
  PlanRequest request = request_for(4, 80);
  request.host_bytes = 1000;
  const LayoutPlans plans = plan_layouts(request);
  CHECK(plans.best.empty());
  CHECK(plans.bounded == 0);
  CHECK(5 * plans.planned < plans.candidates);
  REQUIRE(plans.too_large.size() == 5);
  std::size_t least = plans.too_large[0].host_bytes;
  CHECK(least <= plans.too_large[4].host_bytes);
  for (const LayoutChoice& choice : layout_choices(request))
    least = std::min(least, memory_of(choice.options(request.run), request.config).host);
  CHECK(plans.too_large[0].host_bytes == least);
}
