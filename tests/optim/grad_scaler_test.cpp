// The loss scale: compared with Megatron-LM's scaler step by step, and tested at its bounds.
#include "optim/grad_scaler.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/golden_lines.h"

using namespace mtl;

namespace {

GradScaler::Options dynamic(float initial, std::int64_t window, std::int64_t hysteresis) {
  return {.is_dynamic = true, .initial_scale = initial, .window = window, .hysteresis = hysteresis};
}

GradScaler::Options options_of(const Json& args) {
  GradScaler::Options options{.is_dynamic = true};
  options.initial_scale = float(args.at("initial_scale").as_number());
  options.min_scale = float(args.at("min_scale").as_number());
  options.growth_factor = float(args.at("growth_factor").as_number());
  options.backoff_factor = float(args.at("backoff_factor").as_number());
  options.window = args.at("growth_interval").as_int();
  options.hysteresis = args.at("hysteresis").as_int();
  return options;
}

}  // namespace

TEST_CASE("grad scaler: every step equals Megatron's traces") {
  int traces = 0, steps = 0;
  for (const Json& trace : golden_lines("golden/schedules/scaler.jsonl")) {
    GradScaler scaler(options_of(trace.at("args")));
    const std::string found_inf = trace.at("found_inf").as_string();
    const auto &scales = trace.at("scale").as_array(), &growth = trace.at("growth_tracker").as_array(),
               &hysteresis = trace.at("hysteresis_tracker").as_array();
    REQUIRE(scales.size() == found_inf.size());
    for (std::size_t i = 0; i < found_inf.size(); ++i, ++steps) {
      // If the scaler is saved and restored before the step, it continues in the same way.
      GradScaler resumed(options_of(trace.at("args")));
      resumed.restore(scaler.state());
      scaler.update(found_inf[i] == '1');
      resumed.update(found_inf[i] == '1');
      CAPTURE(traces);
      CAPTURE(i);
      REQUIRE(double(scaler.scale()) == scales[i].as_number());
      REQUIRE(scaler.state().growth_tracker == growth[i].as_int());
      REQUIRE(scaler.state().hysteresis_tracker == hysteresis[i].as_int());
      REQUIRE(resumed.state() == scaler.state());
      REQUIRE(resumed.is_exhausted() == scaler.is_exhausted());
    }
    ++traces;
  }
  CHECK(traces == 11);
  CHECK(steps > 1500);
}

TEST_CASE("grad scaler: exhausted only by an overflow at the minimum after the hysteresis is used up") {
  GradScaler scaler(dynamic(4, 2, 2));
  for (float expected : {4.F, 2.F, 1.F}) {  // the hysteresis absorbs the first overflow
    scaler.update(true);
    CHECK(scaler.scale() == expected);
    CHECK_FALSE(scaler.is_exhausted());
  }
  scaler.update(false);
  scaler.update(true);
  CHECK(scaler.is_exhausted());
  CHECK(scaler.scale() == 1);
  scaler.update(false);
  CHECK_FALSE(scaler.is_exhausted());
  scaler.update(false);  // the scale grows and the hysteresis is restored
  CHECK(scaler.scale() == 2);
  scaler.update(true);
  CHECK(scaler.scale() == 2);
  CHECK_FALSE(scaler.is_exhausted());
}

TEST_CASE("grad scaler: a constant scale never changes, and ignores a restored one") {
  GradScaler scaler({.initial_scale = 128});
  for (int i = 0; i < 2000; ++i) scaler.update(i % 2 == 0);
  CHECK(scaler.scale() == 128);
  CHECK_FALSE(scaler.is_exhausted());
  scaler.restore({4, 0, 0});
  CHECK(scaler.scale() == 128);
  CHECK(GradScaler().scale() == 1);
}

TEST_CASE("grad scaler: the scale stays finite") {
  GradScaler scaler(dynamic(4294967296.F, 1, 1));
  for (int i = 0; i < 200; ++i) scaler.update(false);
  CHECK(scaler.scale() == std::ldexp(1.F, 127));
}
