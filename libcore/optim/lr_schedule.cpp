#include "optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/checked.h"
#include "base/count_of.h"
#include "base/enum_index.h"
#include "base/error.h"

namespace mtl {

namespace {

/// Falls from 1 to 0 as `ratio` goes from 0 to 1.
double cosine_decay(double ratio) { return 0.5 * (std::cos(std::numbers::pi * ratio) + 1.0); }

double wsd_coefficient(const LrScheduleOptions& schedule, double consumed) {
  double start = schedule.decay_steps - schedule.wsd_decay_steps;
  if (consumed <= start) return 1.0;
  double ratio = (consumed - start) / double(schedule.wsd_decay_steps);
  switch (schedule.wsd_decay_style) {
    case WsdDecayStyle::linear:
      return 1.0 - ratio;
    case WsdDecayStyle::cosine:
      return cosine_decay(ratio);
    case WsdDecayStyle::exponential:
      return 2.0 * std::pow(0.5, ratio) - 1.0;
    case WsdDecayStyle::minus_sqrt:
      return 1.0 - std::sqrt(ratio);
  }
  fail(Exit::failure, "unknown WSD decay style");
}

/// Returns the style called `name`. If there is none, throws Error(usage) with `flag` in the message.
template <class Style, std::size_t N>
Style by_name(const std::array<const char*, N>& names, const char* flag, const std::string& name) {
  if (const auto style = enum_named<Style>(names, name)) return *style;
  fail(Exit::usage, flag, " ", name, " is unknown; choose one of ", join({names.begin(), names.end()}, ", "));
}

/// Converts flags to a schedule in samples. Checks only style names.
LrScheduleOptions to_samples(const LrScheduleFlags& flags, const ScheduleLength& run) {
  LrScheduleOptions out;
  out.lr = flags.lr.value_or(0);
  out.min_lr = flags.min_lr;
  if (flags.decoupled_lr) out.decoupled = {*flags.decoupled_lr, flags.decoupled_min_lr.value_or(flags.min_lr)};
  out.warmup_init = flags.lr_warmup_init;
  out.decay_style = by_name<LrDecayStyle>(kLrDecayStyles, "--lr-decay-style", flags.lr_decay_style);
  out.wsd_decay_style = by_name<WsdDecayStyle>(kWsdDecayStyles, "--lr-wsd-decay-style", flags.lr_wsd_decay_style);
  out.weight_decay_style =
      by_name<WeightDecayStyle>(kWeightDecayStyles, "--weight-decay-incr-style", flags.weight_decay_incr_style);
  bool grows = out.weight_decay_style != WeightDecayStyle::constant;
  out.start_weight_decay = grows ? flags.start_weight_decay.value_or(flags.weight_decay) : flags.weight_decay;
  out.end_weight_decay = grows ? flags.end_weight_decay.value_or(flags.weight_decay) : flags.weight_decay;
  double warmup = 0;
  if (run.train_samples) {
    out.wd_incr_steps = *run.train_samples;
    out.decay_steps = flags.lr_decay_samples.value_or(*run.train_samples);
    out.wsd_decay_steps = flags.lr_wsd_decay_samples.value_or(0);
    warmup = flags.lr_warmup_samples;
  } else {
    std::int64_t batch = run.global_batch_size, iterations = run.train_iters.value_or(0);
    // Saturates, because the schedule may be longer than any possible run.
    const auto samples = [batch](std::int64_t updates) {
      return checked_product({updates, batch}).value_or(INT64_MAX);
    };
    out.wd_incr_steps = samples(iterations);
    out.decay_steps = samples(flags.lr_decay_iters.value_or(iterations));
    out.wsd_decay_steps = samples(flags.lr_wsd_decay_iters.value_or(0));
    warmup = samples(flags.lr_warmup_iters);
  }
  out.warmup_steps = flags.lr_warmup_fraction ? *flags.lr_warmup_fraction * double(out.decay_steps) : warmup;
  return out;
}

/// Reports a warm-up that is negative or not shorter than the decay, using the flag and unit that the user chose.
void report_warmup(const LrScheduleFlags& flags, const ScheduleLength& run, const ReportProblem& report) {
  const bool in_samples = run.train_samples.has_value();
  const std::int64_t length = in_samples ? flags.lr_warmup_samples : flags.lr_warmup_iters;
  const std::int64_t decay = in_samples ? flags.lr_decay_samples.value_or(*run.train_samples)
                                        : flags.lr_decay_iters.value_or(run.train_iters.value_or(0));
  if (flags.lr_warmup_fraction)
    report(cat("--lr-warmup-fraction ", *flags.lr_warmup_fraction), "must be at least 0 and below 1");
  else
    report(cat(in_samples ? "--lr-warmup-samples " : "--lr-warmup-iters ", length),
           length < 0 ? "must not be negative"
                      : cat("must be shorter than the decay, which takes ",
                            count_of(decay, in_samples ? "sample" : "iteration"), "; use fewer, or a larger --lr-decay",
                            in_samples ? "-samples" : "-iters"));
}

}  // namespace

double learning_rate(const LrScheduleOptions& schedule, std::int64_t consumed_samples) {
  double consumed = consumed_samples, decay = schedule.decay_steps;
  double warmup = schedule.warmup_steps;
  if (warmup > 0 && consumed <= warmup) {
    return schedule.warmup_init + (schedule.lr - schedule.warmup_init) * consumed / warmup;
  }
  if (schedule.decay_style == LrDecayStyle::constant) return schedule.lr;
  if (consumed > decay) return schedule.min_lr;
  if (schedule.decay_style == LrDecayStyle::inverse_square_root) {
    double lr = schedule.lr * std::sqrt(std::max(warmup, 1.0)) / std::sqrt(std::max(consumed, 1.0));
    return std::max(schedule.min_lr, lr);
  }
  double ratio = (consumed - warmup) / (decay - warmup);
  double coefficient = schedule.decay_style == LrDecayStyle::linear   ? 1.0 - ratio
                       : schedule.decay_style == LrDecayStyle::cosine ? cosine_decay(ratio)
                                                                      : wsd_coefficient(schedule, consumed);
  return schedule.min_lr + coefficient * (schedule.lr - schedule.min_lr);
}

double decoupled_rate(LrScheduleOptions schedule, std::int64_t consumed_samples) {
  if (!schedule.decoupled) return 0;
  schedule.lr = schedule.decoupled->lr;
  schedule.min_lr = schedule.decoupled->min_lr;
  return learning_rate(schedule, consumed_samples);
}

double weight_decay(const LrScheduleOptions& schedule, std::int64_t consumed_samples) {
  if (schedule.weight_decay_style == WeightDecayStyle::constant || consumed_samples > schedule.wd_incr_steps) {
    return schedule.end_weight_decay;
  }
  double ratio = double(consumed_samples) / double(schedule.wd_incr_steps);
  double coefficient = schedule.weight_decay_style == WeightDecayStyle::linear ? ratio : cosine_decay(1.0 - ratio);
  return schedule.start_weight_decay + coefficient * (schedule.end_weight_decay - schedule.start_weight_decay);
}

void check_schedule(const LrScheduleFlags& flags, const ScheduleLength& run, const ReportProblem& report) {
  bool in_samples = run.train_samples.has_value();
  const char* unit = in_samples ? "does not fit a run that is counted in samples; use --lr-"
                                : "does not fit a run that is counted in iterations; use --lr-";
  const char* suffix = in_samples ? "-samples" : "-iters";
  auto other_unit = [&](bool given, const char* name) {
    if (given) report(cat("--lr-", name, in_samples ? "-iters" : "-samples"), cat(unit, name, suffix));
  };
  other_unit(in_samples ? flags.lr_decay_iters.has_value() : flags.lr_decay_samples.has_value(), "decay");
  other_unit((in_samples ? flags.lr_warmup_iters : flags.lr_warmup_samples) != 0, "warmup");
  const bool has_other_wsd = in_samples ? flags.lr_wsd_decay_iters.has_value() : flags.lr_wsd_decay_samples.has_value();
  other_unit(has_other_wsd, "wsd-decay");
  if (flags.lr_warmup_fraction && (flags.lr_warmup_iters != 0 || flags.lr_warmup_samples != 0)) {
    report("--lr-warmup-fraction", cat("excludes --lr-warmup", suffix, "; use only one of them"));
  }

  LrScheduleOptions steps = to_samples(flags, run);
  if (!flags.lr)
    report("--lr", "is required: the peak learning rate");
  else if (!(steps.lr >= 0))
    report(cat("--lr ", steps.lr), "must not be negative");
  else if (steps.min_lr > steps.lr)
    report(cat("--min-lr ", steps.min_lr), cat("is larger than --lr ", steps.lr, "; lower it, or raise --lr"));
  else if (steps.warmup_init > steps.lr)
    report(cat("--lr-warmup-init ", steps.warmup_init), cat("is larger than --lr ", steps.lr, "; lower it"));
  if (!(steps.min_lr >= 0)) report(cat("--min-lr ", steps.min_lr), "must not be negative");
  if (steps.decay_steps <= 0) report(cat("--lr-decay", suffix), "must be positive");
  if (!(steps.warmup_steps >= 0) || (steps.decay_steps > 0 && steps.warmup_steps >= double(steps.decay_steps)))
    report_warmup(flags, run, report);
  if (steps.decay_style == LrDecayStyle::wsd && steps.wsd_decay_steps <= 0 && !has_other_wsd) {
    report("--lr-decay-style WSD", cat("needs the length of its decay; add --lr-wsd-decay", suffix));
  }
  bool grows = steps.weight_decay_style != WeightDecayStyle::constant;
  for (auto [name, value] :
       {std::pair{"--start-weight-decay", flags.start_weight_decay}, {"--end-weight-decay", flags.end_weight_decay}}) {
    if (grows && !value) report(name, cat("is required by --weight-decay-incr-style ", flags.weight_decay_incr_style));
    if (!grows && value && *value != flags.weight_decay) {
      report(cat(name, " ", *value),
             "needs --weight-decay-incr-style linear or cosine; use --weight-decay to set a constant weight decay");
    }
  }
  if (grows && steps.start_weight_decay > steps.end_weight_decay)
    report(
        cat("--start-weight-decay ", steps.start_weight_decay),
        cat("is larger than --end-weight-decay ", steps.end_weight_decay, "; lower it, or raise --end-weight-decay"));
}

LrScheduleOptions resolve_schedule(const LrScheduleFlags& flags, const ScheduleLength& run) {
  check_schedule(flags, run,
                 [](const std::string& flag, const std::string& what) { fail(Exit::usage, flag, " ", what); });
  return to_samples(flags, run);
}

}  // namespace mtl
