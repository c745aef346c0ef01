#include "run/precision_options.h"

#include "base/str.h"
#include "optim/precision_presets.h"

namespace mtl {

namespace {

std::string preset_name(const PrecisionOptions& options) {
  if (options.preset) return *options.preset;
  return options.bf16 ? "bf16" : options.fp16 ? "fp16" : "fp32";
}

/// Returns the flag that selects the preset.
std::string preset_flag(const PrecisionOptions& options) {
  if (!options.preset && (options.bf16 || options.fp16)) return "--" + preset_name(options);
  return "--precision " + preset_name(options);
}

constexpr PrecisionDType kDTypes[] = {
    {"compute", &Precision::compute},
    {"residual", &Precision::residual},
    {"logits", &Precision::logits},
    {"main_params", &Precision::main_params, "--main-params-dtype", &PrecisionOptions::main_params,
     "the weights that the optimizer updates"},
    {"main_grads", &Precision::main_grads, "--main-grads-dtype", &PrecisionOptions::main_grads, "the summed gradients"},
    {"exp_avg", &Precision::exp_avg, "--exp-avg-dtype", &PrecisionOptions::exp_avg, "the first moments"},
    {"exp_avg_sq", &Precision::exp_avg_sq, "--exp-avg-sq-dtype", &PrecisionOptions::exp_avg_sq, "the second moments"}};

}  // namespace

std::span<const PrecisionDType> precision_dtype_flags() { return std::span(kDTypes).subspan(3); }

Precision precision_of(const PrecisionOptions& options) {
  Precision precision = find_precision(preset_name(options));
  for (const PrecisionDType& row : precision_dtype_flags()) {
    const std::optional<std::string>& given = options.*row.given;
    if (given == "fp32") precision.*row.dtype = DType::f32;
    if (given == "bf16") precision.*row.dtype = DType::bf16;
  }
  if (options.grad_reduce_in_bf16) precision.main_grads = DType::bf16;
  if (options.fp32_residual) precision.residual = DType::f32;
  if (options.bf16_logits) precision.logits = DType::bf16;
  precision.stochastic_rounding = options.stochastic_rounding;
  return precision;
}

std::string precision_mode(const PrecisionOptions& options) {
  const std::string name = preset_name(options);
  return name + (precision_of(options) == find_precision(name) ? "" : ", changed");
}

std::vector<std::string> precision_flags(const PrecisionOptions& options) {
  std::vector<std::string> flags;
  for (const PrecisionDType& row : precision_dtype_flags()) {
    if (const std::optional<std::string>& name = options.*row.given) flags.push_back(cat(row.flag, " ", *name));
  }
  if (options.grad_reduce_in_bf16) flags.emplace_back("--grad-reduce-in-bf16");
  if (options.fp32_residual) flags.emplace_back("--fp32-residual-connection");
  if (options.bf16_logits) flags.emplace_back("--bf16-logits");
  if (options.stochastic_rounding) flags.emplace_back("--stochastic-rounding");
  if (options.preset || options.bf16 || options.fp16 || flags.empty())
    flags.insert(flags.begin(), preset_flag(options));
  return flags;
}

GradScaler::Options scaler_of(const PrecisionOptions& options) {
  GradScaler::Options scaler;
  if (precision_of(options).compute != DType::f16) return scaler;
  scaler.is_dynamic = !options.has_constant_scale();
  scaler.initial_scale = static_cast<float>(scaler.is_dynamic ? options.initial_loss_scale : *options.loss_scale);
  scaler.min_scale = static_cast<float>(options.min_loss_scale);
  scaler.window = options.loss_scale_window;
  scaler.hysteresis = options.hysteresis;
  return scaler;
}

void check_precision(const PrecisionOptions& options, const ReportProblem& report) {
  if (options.bf16 && options.fp16) report("--fp16", "excludes --bf16; use only one of them");
  if (options.preset && (options.bf16 || options.fp16))
    report("--precision " + *options.preset,
           cat("excludes ", options.bf16 ? "--bf16" : "--fp16", "; use only one of them"));
  for (const PrecisionDType& row : precision_dtype_flags()) {
    const std::string given = (options.*row.given).value_or("fp32");
    if (given == "fp32" || given == "bf16") continue;
    const bool is_megatron_dtype = given == "fp16" || given == "fp8";
    report(cat(row.flag, " ", given),
           is_megatron_dtype
               ? "is not supported in this version, because its range is too small without scale factors of its "
                 "own; use fp32 or bf16"
               : "must be fp32 or bf16");
  }
  const Precision precision = precision_of(options);
  const bool computes_in_bf16 = precision.compute == DType::bf16;
  if (precision.main_params == DType::bf16 && !computes_in_bf16)
    report("--main-params-dtype bf16",
           "needs --bf16, because main weights are either fp32 or the weights that layers read");
  if (options.grad_reduce_in_bf16 && options.main_grads == "fp32") {
    report("--grad-reduce-in-bf16", "contradicts --main-grads-dtype fp32; use only one of them");
  } else if (precision.main_grads == DType::bf16) {
    const std::string cause = options.grad_reduce_in_bf16 ? "--grad-reduce-in-bf16"
                              : options.main_grads        ? "--main-grads-dtype bf16"
                                                          : preset_flag(options);
    if (!computes_in_bf16 && !options.accumulate_grads_in_fp32)
      report(cause, "needs --bf16, because other precisions have main gradients in fp32");
    if (options.accumulate_grads_in_fp32)
      report("--accumulate-allreduce-grads-in-fp32",
             cat("contradicts ", cause, ", which has main gradients in bf16; use only one of them"));
  }
  const GradScaler::Options scaler = scaler_of(options);
  if (scaler.is_dynamic && scaler.initial_scale < scaler.min_scale)
    report(cat("--initial-loss-scale ", options.initial_loss_scale),
           cat("is below --min-loss-scale ", options.min_loss_scale, "; raise it, or lower --min-loss-scale"));
}

Json precision_record(const Precision& precision) {
  Json out = Json::object();
  for (const PrecisionDType& row : kDTypes) out.set(row.name, name_of(precision.*row.dtype));
  out.set("stochastic_rounding", precision.stochastic_rounding);
  return out;
}

std::string precision_difference(const Json* record, const Precision& precision) {
  const Json fp32 = precision_record(kPrecisionFp32);
  const Json& saved = record != nullptr && record->is_object() ? *record : fp32;
  std::vector<std::string> differences;
  for (const PrecisionDType& row : kDTypes) {
    const std::string was = saved.string_or(row.name, name_of(DType::f32)), is = name_of(precision.*row.dtype);
    if (was != is) differences.push_back(cat(row.name, " ", was, ", not ", is));
  }
  if (saved.bool_or("stochastic_rounding", false) != precision.stochastic_rounding)
    differences.push_back(precision.stochastic_rounding ? "no stochastic rounding" : "stochastic rounding");
  return join(differences, "; ");
}

}  // namespace mtl
