// Requests for layouts, and what planning and simulating each candidate tells.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "engine/rank_plans.h"
#include "planner/plan_layouts.h"
#include "run/run_plan.h"
#include "tests/gpt_of_size.h"
#include "tests/planner/planner_fixtures.h"

namespace mtl::test {

inline PlanRequest request_for(std::int64_t world, double gigabytes) {
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
inline RunBytes memory_of(const TrainOptions& options, const GptConfig& config) {
  const std::vector<RankPlan> plans = plan_run(options, config);
  const MemoryPlan& largest = largest_plan(plans).plan;
  RunBytes out{.scarce = largest.total_bytes(largest.scarce_space())};
  for (const RankPlan& each : plans) out.host = std::max(out.host, each.plan.total_bytes(Space::host));
  return out;
}

inline double ms_of(const TrainOptions& options, const PlanRequest& request) {
  const RunShape shape = run_shape(options, request.config, 0);
  const auto schedule = pipeline_schedule(shape.layout, static_cast<int>(shape.micro_batches));
  const auto traces = trace_stages(request.config, run_dropout(options), shape, run_overlap(options), schedule);
  return simulate_step(traces, shape.layout, request.node_size, request.machine, options.tf32).ms;
}

/// A request with random sizes, links and devices.
inline PlanRequest random_request(std::mt19937& random) {
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

/// A request that a third of the candidates fit, and its candidates.
struct TriedRequest {
  PlanRequest request;
  std::vector<LayoutChoice> choices;
  std::vector<RunBytes> bytes;       // by choice
  std::map<std::size_t, double> ms;  // by choice, of those that fit, unless the same layout fits with fewer savings
};

inline TriedRequest try_all(const PlanRequest& request) {
  TriedRequest out{.request = request, .choices = layout_choices(request), .bytes = {}, .ms = {}};
  std::vector<std::size_t> sorted;
  for (const LayoutChoice& choice : out.choices) {
    out.bytes.push_back(memory_of(choice.options(request.run), request.config));
    sorted.push_back(out.bytes.back().scarce);
  }
  std::ranges::sort(sorted);
  out.request.device_bytes = double(sorted[sorted.size() / 3]);
  const auto fits = [&](std::size_t i) { return double(out.bytes[i].scarce) <= out.request.device_bytes; };
  for (std::size_t i = 0; i < out.choices.size(); ++i) {
    const LayoutChoice& choice = out.choices[i];
    bool fits_with_fewer = false;
    for (std::size_t other = 0; other < out.choices.size(); ++other)
      fits_with_fewer = fits_with_fewer || (other != i && out.choices[other].layout == choice.layout && fits(other) &&
                                            out.choices[other].saves_no_more_than(choice));
    if (fits(i) && !fits_with_fewer) out.ms[i] = ms_of(choice.options(request.run), request);
  }
  return out;
}

/// Returns random requests, tried once for all tests.
inline const std::vector<TriedRequest>& tried_requests() {
  static const std::vector<TriedRequest> all = [] {
    std::mt19937 random(7);
    std::vector<TriedRequest> out;
    for (int round = 0; round < 6; ++round) out.push_back(try_all(random_request(random)));
    return out;
  }();
  return all;
}

}  // namespace mtl::test
