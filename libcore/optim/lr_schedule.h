// Learning rate and weight decay as functions of the samples consumed so far.
//
// All lengths are in samples, so the schedule does not depend on the batch size. Iteration k uses the values at
// (k-1) * global_batch_size samples: with a warm-up, the first step uses warmup_init. With n samples consumed,
// W = warmup_steps, D = decay_steps, A = wsd_decay_steps, the learning rate is
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
// and the weight decay, with I = wd_incr_steps, is start + c * (end - start) with c = n / I (linear) or
// c = (cos(pi (1 - n / I)) + 1) / 2 (cosine); it is end for n > I, and always with the style constant.
//
// The formulas, and the order of their evaluation, are those of megatron/core/optimizer_param_scheduler.py.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace mtl {

enum class LrDecayStyle { constant, linear, cosine, inverse_square_root, wsd };
enum class WsdDecayStyle { linear, cosine, exponential, minus_sqrt };
enum class WeightDecayStyle { constant, linear, cosine };

/// A resolved schedule; all `_steps` are samples.
struct LrScheduleOptions {
  double lr = 0;
  double min_lr = 0;
  double warmup_init = 0;
  LrDecayStyle decay_style = LrDecayStyle::linear;
  double warmup_steps = 0;  // may be fractional: a fraction of the decay
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

/// The flags of a schedule, with Megatron's names and defaults; tools parse their flags into these members.
struct LrScheduleFlags {
  std::optional<double> lr;
  double min_lr = 0;
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

/// The length of a run: exactly one of iterations and samples is set.
struct ScheduleLength {
  std::optional<std::int64_t> train_iters;
  std::optional<std::int64_t> train_samples;
  std::int64_t global_batch_size = 0;
};

/// Calls report(flag, problem) for every invalid or contradictory flag. Throws Error(usage) for an unknown style.
void check_schedule(const LrScheduleFlags& flags, const ScheduleLength& run,
                    const std::function<void(std::string flag, std::string what)>& report);

/// Converts the flags to samples: multiplies iterations by the global batch size, and the warm-up fraction by the
/// length of the decay, which is the run's by default. Throws Error(usage) with the first problem that check_schedule
/// finds.
LrScheduleOptions resolve_schedule(const LrScheduleFlags& flags, const ScheduleLength& run);

}  // namespace mtl
