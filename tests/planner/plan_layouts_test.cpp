// The search for layouts: it finds what trying every candidate finds, and its bounds are bounds.
#include "planner/plan_layouts.h"

#include <doctest/doctest.h>

#include "engine/rank_plans.h"
#include "tests/gpt_of_size.h"
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

}  // namespace

TEST_CASE("plans: the search returns the same layouts as simulating all that fit") {
  for (std::int64_t world : {4, 8}) {
    const PlanRequest request = request_for(world, 80);
    const LayoutPlans found = plan_layouts(request, 3), all = plan_layouts(request, 100000);
    CAPTURE(world);
    CHECK(all.simulated == all.fitting);
    CHECK(found.simulated < found.fitting);
    REQUIRE(found.best.size() == 3);
    for (std::size_t i = 0; i < found.best.size(); ++i) CHECK(found.best[i].time->ms == all.best[i].time->ms);
    for (const Candidate& each : all.best) CHECK(each.bound_ms <= each.time->ms);
  }
}

TEST_CASE("plans: memory is what a run's plan says, and savings come only when they are needed") {
  const PlanRequest roomy = request_for(4, 80);
  const LayoutPlans plans = plan_layouts(roomy);
  REQUIRE(!plans.best.empty());
  for (const Candidate& each : plans.best) {
    CHECK(each.bytes == largest_plan(plan_run(each.options, roomy.config)).plan.total_bytes(Space::device));
    CHECK(!each.options.parallel.recompute_granularity);
  }
  std::size_t least = plans.best[0].bytes;
  for (const Candidate& each : plans.best) least = std::min(least, each.bytes);
  const LayoutPlans tight = plan_layouts(request_for(4, double(least - 1) * 1e-9));
  REQUIRE(!tight.best.empty());
  for (const Candidate& each : tight.best) CHECK(each.bytes < least);
  CHECK(tight.best[0].time->ms > plans.best[0].time->ms);
  CHECK(!tight.too_large.empty());
}

TEST_CASE("plans: if nothing fits, the layouts that need the least memory are named") {
  const LayoutPlans plans = plan_layouts(request_for(4, 0.001));
  CHECK(plans.best.empty());
  CHECK(plans.fitting == 0);
  REQUIRE(plans.too_large.size() == 5);
  CHECK(plans.too_large[0].bytes <= plans.too_large[4].bytes);
  CHECK(plans.too_large[0].options.parallel.recompute_granularity);
}
