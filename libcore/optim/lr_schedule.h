// Learning rate and weight decay as functions of the samples consumed so far.
//
// All lengths are in samples, so the schedule does not depend on the batch size. An iteration uses the values for the
// samples consumed before it. With a constant batch size, that is (k-1) * global_batch_size samples for iteration k,
// counted from 1. With a warm-up, the first iteration therefore uses warmup_init. Let n be the number of consumed
// samples, W = warmup_steps, D = decay_steps and A = wsd_decay_steps. The first matching row in this table is the
// learning rate:
//
//   n <= W, W > 0        warmup_init + (lr - warmup_init) * n / W
//   constant             lr
//   n > D                min_lr                                          (every other style)
//   inverse-square-root  max(min_lr, lr * sqrt(max(W, 1)) / sqrt(max(n, 1)))
//   other styles         min_lr + c * (lr - min_lr), with r = (n - W) / (D - W) and x = (n - (D - A)) / A
//     linear             c = 1 - r
//     cosine             c = (cos(pi r) + 1) / 2
//     WSD                c = 1 up to n = D - A, then   linear       1 - x
//                                                      cosine       (cos(pi x) + 1) / 2
//                                                      exponential  2 * 0.5^x - 1
//                                                      minus_sqrt   1 - sqrt(x)
//
// The weight decay is start + c * (end - start). Let I = wd_incr_steps. Then c = n / I (linear) or c = (cos(pi (1 - n /
// I)) + 1) / 2 (cosine). If n > I, or if the style is constant, the weight decay is `end`.
//
// The formulas, and their order of evaluation, follow megatron/core/optimizer_param_scheduler.py.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/usage_error.h"

namespace mtl {

enum class LrDecayStyle { constant, linear, cosine, inverse_square_root, wsd };
enum class WsdDecayStyle { exponential, linear, cosine, minus_sqrt };
enum class WeightDecayStyle { constant, linear, cosine };
// Their names in flags and checkpoints.
inline constexpr std::array kLrDecayStyles = {"constant", "linear", "cosine", "inverse-square-root", "WSD"};
inline constexpr std::array kWsdDecayStyles = {"exponential", "linear", "cosine", "minus_sqrt"};
inline constexpr std::array kWeightDecayStyles = {"constant", "linear", "cosine"};

/// The learning rate of the token embedding and the output layer, if it is not the general one: its peak and its end.
struct DecoupledRate {
  double lr = 0, min_lr = 0;
};

/// A resolved schedule. Members whose names end in `_steps` count samples, as in Megatron-LM's scheduler.
struct LrScheduleOptions {
  double lr = 0;
  double min_lr = 0;
  std::optional<DecoupledRate> decoupled = {};
  double warmup_init = 0;
  LrDecayStyle decay_style = LrDecayStyle::linear;
  double warmup_steps = 0;  // may be fractional if given as a fraction of the decay
  std::int64_t decay_steps = 0;
  WsdDecayStyle wsd_decay_style = WsdDecayStyle::exponential;
  std::int64_t wsd_decay_steps = 0;
  WeightDecayStyle weight_decay_style = WeightDecayStyle::constant;
  double start_weight_decay = 0.01;
  double end_weight_decay = 0.01;
  std::int64_t wd_incr_steps = 0;
};

double learning_rate(const LrScheduleOptions& schedule, std::int64_t consumed_samples);
double weight_decay(const LrScheduleOptions& schedule, std::int64_t consumed_samples);
/// Returns learning_rate() with the peak and the end of the decoupled rate, or 0 if there is none.
double decoupled_rate(LrScheduleOptions schedule, std::int64_t consumed_samples);

/// Schedule flags, with Megatron-LM's names and defaults. Tools parse their flags into these members.
struct LrScheduleFlags {
  std::optional<double> lr;
  double min_lr = 0;
  std::optional<double> decoupled_lr, decoupled_min_lr;
  double lr_warmup_init = 0;
  std::string lr_decay_style = "linear";
  std::optional<std::int64_t> lr_decay_iters;
  std::optional<std::int64_t> lr_decay_samples;
  std::optional<double> lr_warmup_fraction;
  std::int64_t lr_warmup_iters = 0;
  std::int64_t lr_warmup_samples = 0;
  std::string lr_wsd_decay_style = "exponential";
  std::optional<std::int64_t> lr_wsd_decay_iters;
  std::optional<std::int64_t> lr_wsd_decay_samples;
  double weight_decay = 0.01;
  std::string weight_decay_incr_style = "constant";
  std::optional<double> start_weight_decay;
  std::optional<double> end_weight_decay;
};

/// The length of a run. Exactly one of train_iters and train_samples must be set.
struct ScheduleLength {
  std::optional<std::int64_t> train_iters;
  std::optional<std::int64_t> train_samples;
  std::int64_t global_batch_size = 0;
};

/// Calls report(flag, problem) for every invalid or contradictory flag. Throws Error(usage) for an unknown style.
void check_schedule(const LrScheduleFlags& flags, const ScheduleLength& run, const ReportProblem& report);

/// Converts the flags to a schedule in samples. Iterations are multiplied by the global batch size, and the warm-up
/// fraction by the decay length, which defaults to the length of the run. Throws Error(usage) for the first problem
/// that check_schedule() reports.
LrScheduleOptions resolve_schedule(const LrScheduleFlags& flags, const ScheduleLength& run);

}  // namespace mtl
