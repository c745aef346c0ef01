// The options of a run's precision: a preset, single dtypes that change it, and the loss scale of fp16.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/json.h"
#include "device/precision.h"
#include "optim/grad_scaler.h"

namespace mtl {

struct PrecisionOptions {
  std::optional<std::string> preset{};  // optim/precision_presets.h; absent: by bf16 and fp16, or fp32
  bool bf16 = false, fp16 = false;
  std::optional<std::string> main_params{}, main_grads{}, exp_avg{}, exp_avg_sq{};  // fp32 or bf16
  bool grad_reduce_in_bf16 = false;                                                 // main gradients in bf16
  bool accumulate_grads_in_fp32 = false;                                            // requires main gradients in fp32
  bool fp32_residual = false;
  bool stochastic_rounding = false;
  std::optional<double> loss_scale{};  // constant; absent or 0: dynamic
  double initial_loss_scale = 4294967296, min_loss_scale = 1;
  std::int64_t loss_scale_window = 1000, hysteresis = 2;

  bool has_constant_scale() const { return loss_scale.value_or(0) != 0; }
};

/// The requested precision; ignores dtypes that check_precision refuses.
Precision precision_of(const PrecisionOptions& options);
/// The name of the preset, with ", changed" where single dtypes differ from it.
std::string precision_mode(const PrecisionOptions& options);
/// In fp16 the dynamic or constant loss scale; in other precisions a constant 1.
GradScaler::Options scaler_of(const PrecisionOptions& options);
/// Reports contradictory options, and unsupported dtypes.
void check_precision(const PrecisionOptions& options,
                     const std::function<void(std::string flag, std::string what)>& report);

/// The record of a run's precision in its checkpoints.
Json precision_record(const Precision& precision);
/// The differences of the recorded precision from this one, as "main_grads float32, not bfloat16";
/// empty if they are equal. Without a record (null) it was fp32.
std::string precision_difference(const Json* record, const Precision& precision);

}  // namespace mtl
