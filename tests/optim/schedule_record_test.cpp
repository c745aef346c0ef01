// The schedule that checkpoints record.
#include "optim/schedule_record.h"

#include <doctest/doctest.h>

#include "base/error.h"

using namespace mtl;

namespace {

/// Both schedules have the same rates and weight decays at every sample.
void check_equal(const LrScheduleOptions& a, const LrScheduleOptions& b) {
  for (std::int64_t samples = 0; samples < 300; ++samples) {
    CAPTURE(samples);
    CHECK(learning_rate(a, samples) == learning_rate(b, samples));
    CHECK(weight_decay(a, samples) == weight_decay(b, samples));
  }
}

}  // namespace

TEST_CASE("schedule record: every style is read back exactly, from its text") {
  for (const char* style : {"constant", "linear", "cosine", "inverse-square-root", "WSD"}) {
    for (const char* wsd : {"exponential", "linear", "cosine", "minus_sqrt"}) {
      for (const char* growth : {"constant", "linear", "cosine"}) {
        CAPTURE(style);
        CAPTURE(wsd);
        CAPTURE(growth);
        LrScheduleFlags flags;
        flags.lr = 0.1;
        flags.min_lr = 0.01;
        flags.lr_warmup_init = 0.001;
        flags.lr_decay_style = style;
        flags.lr_warmup_fraction = 0.07;
        flags.lr_wsd_decay_style = wsd;
        flags.lr_wsd_decay_iters = 11;
        flags.weight_decay_incr_style = growth;
        if (std::string(growth) != "constant") flags.start_weight_decay = 0.3, flags.end_weight_decay = 0.7;
        const LrScheduleOptions schedule =
            resolve_schedule(flags, {.train_iters = 50, .train_samples = {}, .global_batch_size = 5});
        check_equal(schedule, schedule_from_record(Json::parse(schedule_record(schedule).dump())));
      }
    }
  }
}

TEST_CASE("schedule record: settings without an effect are left out, contradictions are refused") {
  LrScheduleOptions schedule;
  schedule.lr = 0.5;
  schedule.decay_style = LrDecayStyle::constant;
  schedule.decay_steps = 100;
  LrScheduleOptions longer = schedule;
  longer.decay_steps = 200;
  longer.min_lr = longer.warmup_init = 0.1;
  CHECK(schedule_record(schedule).dump() == schedule_record(longer).dump());
  schedule.decay_style = LrDecayStyle::linear;
  schedule.warmup_steps = 100;
  CHECK_THROWS_AS(schedule_from_record(schedule_record(schedule)), Error);
  Json record = schedule_record(longer);
  record.set("--lr-decay-style", "steep");
  CHECK_THROWS_AS(schedule_from_record(record), Error);
}
