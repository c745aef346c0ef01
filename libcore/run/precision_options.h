// A run's precision options: a preset, dtypes that override parts of it, and fp16's loss scale.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/usage_error.h"
#include "device/precision.h"
#include "optim/grad_scaler.h"

namespace mtl {

struct PrecisionOptions {
  std::optional<std::string> preset{};  // optim/precision_presets.h; absent: bf16 or fp16 if set, else fp32
  bool bf16 = false, fp16 = false;
  std::optional<std::string> main_params{}, main_grads{}, exp_avg{}, exp_avg_sq{};  // fp32 or bf16
  bool grad_reduce_in_bf16 = false;                                                 // main gradients in bf16
  bool accumulate_grads_in_fp32 = false;                                            // requires main gradients in fp32
  bool fp32_residual = false, bf16_logits = false;
  bool stochastic_rounding = false;
  std::optional<double> loss_scale{};  // constant; absent or 0: dynamic
  double initial_loss_scale = 4294967296, min_loss_scale = 1;
  std::int64_t loss_scale_window = 1000, hysteresis = 2;

  bool has_constant_scale() const { return loss_scale.value_or(0) != 0; }
};

/// A dtype that a resumed run must keep, and the flag that chooses it, if any. Precision::load is not one of them,
/// because it affects only initial weights.
struct PrecisionDType {
  const char* name;  // in checkpoints
  DType Precision::*dtype;
  const char* flag = nullptr;
  std::optional<std::string> PrecisionOptions::*given = nullptr;
  const char* meaning = nullptr;  // in the flag's help: "dtype of ..."
};
/// Returns those that a flag chooses.
std::span<const PrecisionDType> precision_dtype_flags();

/// Returns the requested precision. Ignores dtypes that check_precision() rejects.
Precision precision_of(const PrecisionOptions& options);
/// Returns the preset's name, followed by ", changed" if the precision differs from it.
std::string precision_mode(const PrecisionOptions& options);
/// Returns the given flags that choose dtypes: "--bf16", "--main-grads-dtype bf16". If there are none, "--precision
/// fp32".
std::vector<std::string> precision_flags(const PrecisionOptions& options);
/// Returns fp16's dynamic or constant loss scale. In other precisions, returns a constant 1.
GradScaler::Options scaler_of(const PrecisionOptions& options);
/// Reports contradictory options, and unsupported dtypes.
void check_precision(const PrecisionOptions& options, const ReportProblem& report);

/// Returns the record of the precision that checkpoints store.
Json precision_record(const Precision& precision);
/// Describes how the recorded precision differs from this one: "main_grads float32, not bfloat16". Returns "" if they
/// are equal. If there is no record (null), assumes fp32.
std::string precision_difference(const Json* record, const Precision& precision);

}  // namespace mtl
