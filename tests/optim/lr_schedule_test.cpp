// Learning rate and weight decay: compared with Megatron's scheduler. Also covers errors in flags.
#include "optim/lr_schedule.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/files.h"
#include "base/json.h"
#include "tests/golden_lines.h"

using namespace mtl;

namespace {

template <class Value>
std::optional<Value> optional_of(const Json& flags, const char* name) {
  const Json* value = flags.find(name);
  if (value == nullptr || value->is_null()) return std::nullopt;
  return static_cast<Value>(value->as_number());
}

LrScheduleFlags flags_of(const Json& json) {
  LrScheduleFlags flags;
  flags.lr = json.at("lr").as_number();
  flags.min_lr = json.number_or("min_lr", 0);
  flags.lr_warmup_init = json.number_or("lr_warmup_init", 0);
  flags.lr_decay_style = json.string_or("lr_decay_style", "linear");
  flags.lr_decay_iters = optional_of<std::int64_t>(json, "lr_decay_iters");
  flags.lr_decay_samples = optional_of<std::int64_t>(json, "lr_decay_samples");
  flags.lr_warmup_fraction = optional_of<double>(json, "lr_warmup_fraction");
  flags.lr_warmup_iters = json.int_or("lr_warmup_iters", 0);
  flags.lr_warmup_samples = json.int_or("lr_warmup_samples", 0);
  flags.lr_wsd_decay_style = json.string_or("lr_wsd_decay_style", "exponential");
  flags.lr_wsd_decay_iters = optional_of<std::int64_t>(json, "lr_wsd_decay_iters");
  flags.lr_wsd_decay_samples = optional_of<std::int64_t>(json, "lr_wsd_decay_samples");
  flags.weight_decay = json.number_or("weight_decay", 0.01);
  flags.weight_decay_incr_style = json.string_or("weight_decay_incr_style", "constant");
  flags.start_weight_decay = optional_of<double>(json, "start_weight_decay");
  flags.end_weight_decay = optional_of<double>(json, "end_weight_decay");
  return flags;
}

ScheduleLength run_of(const Json& json) {
  return {.train_iters = optional_of<std::int64_t>(json, "train_iters"),
          .train_samples = optional_of<std::int64_t>(json, "train_samples"),
          .global_batch_size = json.at("global_batch_size").as_int()};
}

bool is_close(double actual, double expected) { return std::abs(actual - expected) <= 1e-14 * std::abs(expected); }

/// Returns the flags that check_schedule reports, joined.
std::string reported_flags(const LrScheduleFlags& flags, const ScheduleLength& run) {
  std::string out;
  check_schedule(flags, run, [&](const std::string& flag, const std::string&) { out += flag + ";"; });
  return out;
}

}  // namespace

TEST_CASE("schedule: equals Megatron's scheduler to 1e-14") {
  std::size_t cases = 0;
  for (const Json& golden : golden_lines("golden/schedules/cases.jsonl")) {
    CAPTURE(golden.at("name").as_string());
    LrScheduleOptions schedule = resolve_schedule(flags_of(golden.at("flags")), run_of(golden.at("flags")));
    const Json& steps = golden.at("steps");
    CHECK(schedule.warmup_steps == steps.at("lr_warmup_steps").as_number());
    CHECK(schedule.decay_steps == steps.at("lr_decay_steps").as_int());
    CHECK(schedule.wd_incr_steps == steps.at("wd_incr_steps").as_int());
    if (!steps.at("wsd_decay_steps").is_null()) CHECK(schedule.wsd_decay_steps == steps.at("wsd_decay_steps").as_int());
    for (const Json& row : golden.at("values").as_array()) {
      std::int64_t consumed = row.as_array()[0].as_int();
      CAPTURE(consumed);
      CHECK(is_close(learning_rate(schedule, consumed), row.as_array()[1].as_number()));
      CHECK(is_close(weight_decay(schedule, consumed), row.as_array()[2].as_number()));
    }
    ++cases;
  }
  CHECK(cases == 30);
}

TEST_CASE("schedule: contradictory flags are all named") {
  LrScheduleFlags flags;
  ScheduleLength run{.train_iters = 100, .train_samples = std::nullopt, .global_batch_size = 8};
  CHECK(reported_flags(flags, run) == "--lr;");
  flags.lr = 1e-3;
  CHECK(reported_flags(flags, run).empty());
  flags.min_lr = 1e-2;
  flags.lr_decay_samples = 50;
  flags.lr_warmup_iters = 100;
  flags.lr_decay_style = "WSD";
  flags.weight_decay_incr_style = "cosine";
  CHECK(reported_flags(flags, run) ==
        "--lr-decay-samples;--min-lr 0.01;--lr-warmup-iters 100;--lr-decay-style "
        "WSD;--start-weight-decay;--end-weight-decay;");
  CHECK_THROWS_WITH_AS(resolve_schedule(flags, run), doctest::Contains("use --lr-decay-iters"), Error);
}

TEST_CASE("schedule: an unknown style lists the known ones") {
  LrScheduleFlags flags;
  flags.lr = 1;
  flags.lr_decay_style = "cosin";
  CHECK_THROWS_WITH_AS(resolve_schedule(flags, {.train_iters = 10, .train_samples = {}, .global_batch_size = 1}),
                       doctest::Contains("inverse-square-root"), Error);
}

TEST_CASE("lr_schedule: the decoupled rate follows Megatron's scheduler, with the minimum and warm-up that it shares") {
  for (const Json& golden : golden_lines("golden/objectives/decoupled.jsonl")) {
    LrScheduleFlags flags;
    flags.lr = golden.at("lr").as_number();
    flags.min_lr = golden.at("min_lr").as_number();
    flags.decoupled_lr = golden.at("decoupled_lr").as_number();
    flags.decoupled_min_lr = optional_of<double>(golden, "decoupled_min_lr");
    flags.lr_warmup_init = golden.at("lr_warmup_init").as_number();
    flags.lr_warmup_samples = golden.at("warmup").as_int();
    flags.lr_decay_samples = golden.at("decay").as_int();
    flags.lr_decay_style = golden.at("style").as_string();
    flags.lr_wsd_decay_samples = optional_of<std::int64_t>(golden, "wsd_decay");
    if (const Json& style = golden.at("wsd_style"); !style.is_null()) flags.lr_wsd_decay_style = style.as_string();
    flags.weight_decay = golden.at("weight_decay").as_number();
    const LrScheduleOptions schedule = resolve_schedule(
        flags, {.train_iters = {}, .train_samples = 1000, .global_batch_size = golden.at("gbs").as_int()});
    for (const Json& value : golden.at("values").as_array()) {
      const std::int64_t samples = value.as_array()[0].as_int();
      CAPTURE(samples);
      CAPTURE(*flags.decoupled_lr);
      CHECK(is_close(learning_rate(schedule, samples), value.as_array()[1].as_number()));
      CHECK(is_close(decoupled_rate(schedule, samples), value.as_array()[2].as_number()));
      CHECK(is_close(weight_decay(schedule, samples), value.as_array()[3].as_number()));
    }
  }
}
