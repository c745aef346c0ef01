#include "optim/precision_presets.h"

#include "base/error.h"
#include "optim/param_memory.h"

namespace mtl {

namespace {

constexpr Precision kBf16{.compute = DType::bf16, .residual = DType::bf16},
    kFp16{.compute = DType::f16, .residual = DType::f16},
    kFsdpLow{.compute = DType::bf16,
             .residual = DType::bf16,
             .load = DType::bf16,
             .main_params = DType::bf16,
             .main_grads = DType::bf16,
             .exp_avg = DType::bf16,
             .exp_avg_sq = DType::bf16},
    kFsdpMixed{.compute = DType::bf16, .residual = DType::bf16, .load = DType::bf16, .main_grads = DType::bf16},
    kDeepSpeed{.compute = DType::bf16, .residual = DType::bf16, .load = DType::bf16};

}  // namespace

const std::vector<PrecisionPreset>& precision_presets() {
  static const std::vector<PrecisionPreset> presets = {
      {"fp32", kPrecisionFp32},   {"bf16", kBf16},          {"fp16", kFp16}, {"fsdp-low", kFsdpLow},
      {"fsdp-mixed", kFsdpMixed}, {"deepspeed", kDeepSpeed}};
  return presets;
}

const Precision& find_precision(std::string_view name) {
  for (const PrecisionPreset& preset : precision_presets()) {
    if (preset.name == name) return preset.precision;
  }
  fail(Exit::usage, "no precision is named '", name, "'; choose one of ",
       join(precision_presets(), ", ", &PrecisionPreset::name));
}

const char* short_name(DType dtype) {
  if (dtype == DType::f32) return "fp32";
  if (dtype == DType::bf16) return "bf16";
  if (dtype == DType::f16) return "fp16";
  return name_of(dtype);
}

PrecisionRow precision_row(const Precision& precision, const RuleSet& rules) {
  std::vector<std::string> states;
  for (const auto& rule : rules.rules)
    for (const StateSpec& state : rule->states(precision)) states.emplace_back(short_name(state.dtype));
  states.erase(std::unique(states.begin(), states.end()), states.end());
  return {.load = short_name(precision.load),
          .mixed = precision.has_main_params() ? short_name(precision.compute) : "none",
          .preparation = short_name(precision.main_params),
          .training = short_name(precision.compute),
          .optimizer = join(states, ", ")};
}

std::vector<PrecisionRole> precision_roles(const Precision& precision, const RuleSet& rules,
                                           const std::vector<ParamSpec>& params) {
  std::vector<double> elements(rules.rules.size());
  double all = 0;
  for (const ParamSpec& spec : params) {
    elements[rules.traits(spec).rule] += double(spec.numel());
    all += double(spec.numel());
  }
  std::vector<PrecisionRole> roles;
  for (const Storage& row : storage_table(precision, rules, {})) {
    if (row.role == StorageRole::values) roles.push_back({"weights", row.dtype, 3});
    if (row.role == StorageRole::gradients) roles.push_back({"main gradients", row.dtype, 2});
    if (row.role == StorageRole::main_weights) roles.push_back({"main weights", row.dtype, 1});
    if (row.role != StorageRole::states) continue;
    for (const StateSpec& state : rules.rules[row.rule]->states(precision))
      if (state.name == row.kind) roles.push_back({state.title, row.dtype, 1, elements[row.rule] / all});
  }
  return roles;
}

}  // namespace mtl
