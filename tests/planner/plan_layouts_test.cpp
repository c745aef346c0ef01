// The search for layouts: which it considers, and that it finds what trying every candidate finds.
#include "planner/plan_layouts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/str.h"
#include "layout/schedule.h"
#include "planner/layout_report.h"
#include "planner/plan_report.h"
#include "tests/planner/plan_fixtures.h"

using namespace mtl;
using namespace mtl::test;

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
                   .recompute = "selective",
                   .flags = {}};
  CHECK(counts() ==
        "balanced: 1; candidates: 6; interleaved 2: 2; layouts: 2; micro-batch 3: 2; tp1 cp1 pp2: 2; "
        "zero1: 2; ");
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
  int number = 0;
  for (const auto& [fix, has] : cases) {
    ++number;
    CAPTURE(number);
    request.fixed = {};
    fix(request.fixed);
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
  std::size_t planned = 0;
  for (const TriedRequest& tried : tried_requests()) {
    const PlanRequest& request = tried.request;
    // What is fastest with the same grid, schedule and ZeRO stage.
    std::map<std::tuple<int, int, int, int, int>, double> fastest;
    for (const auto& [i, ms] : tried.ms) {
      const LayoutChoice& choice = tried.choices[i];
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
      CHECK(each.bound_ms < each.time->ms);
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
  CHECK(planned < 1700);
}

TEST_CASE("plans: small models, where the bound counts all that a step does, take longer than the bound") {
  PlanRequest request = request_for(1, 80);
  request.config = gpt_of_size({.vocab = 1000, .layers = 8, .hidden = 128, .heads = 4, .positions = 64});
  request.machine = *find_machine("A100");
  request.run.data.seq_length = 64;
  for (const std::int64_t batch : {1, 8, 24}) {
    request.run.batch.global_batch_size = batch;
    const LayoutPlans plans = plan_layouts(request);
    REQUIRE(!plans.best.empty());
    for (const Candidate& each : plans.best) CHECK(each.bound_ms < each.time->ms);
  }
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
    least = std::min(least, memory_of(choice.options(request.run), request.config).scarce);
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
