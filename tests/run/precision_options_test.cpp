// Precision options: which precision the flags select together, and how they contradict each other.
#include "run/precision_options.h"

#include <doctest/doctest.h>

#include "base/str.h"
#include "optim/precision_presets.h"

using namespace mtl;

namespace {

/// Returns the flags that check_precision reports, joined.
std::string problems_of(const PrecisionOptions& options) {
  std::string out;
  check_precision(options, [&](const std::string& flag, const std::string&) { out += flag + ";"; });
  return out;
}

}  // namespace

TEST_CASE("precision options: presets by name or switch, and dtypes that override them") {
  CHECK(precision_of({}) == kPrecisionFp32);
  CHECK(precision_of({.bf16 = true}) == find_precision("bf16"));
  CHECK(precision_of({.fp16 = true}) == find_precision("fp16"));
  for (const PrecisionPreset& preset : precision_presets()) {
    CHECK(precision_of({.preset = preset.name}) == preset.precision);
    CHECK(precision_mode({.preset = preset.name}) == preset.name);
    CHECK(problems_of({.preset = preset.name}) == "");
  }
  Precision changed = find_precision("bf16");
  changed.main_grads = changed.exp_avg = DType::bf16;
  CHECK(precision_of({.bf16 = true, .main_grads = "bf16", .exp_avg = "bf16"}) == changed);
  CHECK(precision_mode({.bf16 = true, .main_grads = "bf16"}) == "bf16, changed");
  CHECK(precision_mode({.bf16 = true, .main_grads = "fp32"}) == "bf16");
  using Names = std::vector<std::string>;
  CHECK(precision_flags({}) == Names{"--precision fp32"});
  CHECK(precision_flags({.fp16 = true}) == Names{"--fp16"});
  CHECK(precision_flags({.main_grads = "bf16"}) == Names{"--main-grads-dtype bf16"});
  CHECK(precision_flags({.preset = "bf16", .fp32_residual = true}) ==
        Names{"--precision bf16", "--fp32-residual-connection"});
  CHECK(precision_flags({.bf16 = true, .bf16_logits = true}) == Names{"--bf16", "--bf16-logits"});
  CHECK(precision_flags({.preset = "bf16", .bf16 = true}) == Names{"--precision bf16"});
  CHECK(precision_flags({.fp16 = true, .exp_avg = "bf16"}) == Names{"--fp16", "--exp-avg-dtype bf16"});
  CHECK(precision_flags({.bf16 = true, .grad_reduce_in_bf16 = true, .stochastic_rounding = true}) ==
        Names{"--bf16", "--grad-reduce-in-bf16", "--stochastic-rounding"});
  changed = find_precision("bf16");
  changed.main_grads = DType::bf16;
  changed.residual = DType::f32;
  changed.exp_avg_sq = DType::bf16;
  CHECK(precision_of({.bf16 = true, .exp_avg_sq = "bf16", .grad_reduce_in_bf16 = true, .fp32_residual = true}) ==
        changed);
  changed = find_precision("fsdp-low");
  changed.main_params = DType::f32;
  CHECK(precision_of({.preset = "fsdp-low", .main_params = "fp32"}) == changed);
  CHECK(precision_of({.bf16 = true, .main_params = "bf16", .stochastic_rounding = true}).stochastic_rounding);
}

TEST_CASE("precision options: contradictions and unsupported dtypes are reported") {
  CHECK(problems_of({.bf16 = true, .fp16 = true}) == "--fp16;");
  CHECK(problems_of({.preset = "deepspeed", .bf16 = true}) == "--precision deepspeed;");
  CHECK(problems_of({.fp16 = true, .main_params = "bf16"}) == "--main-params-dtype bf16;");
  CHECK(problems_of({.main_params = "bf16"}) == "--main-params-dtype bf16;");
  CHECK(problems_of({.fp16 = true, .main_grads = "bf16"}) == "--main-grads-dtype bf16;");
  CHECK(problems_of({.grad_reduce_in_bf16 = true}) == "--grad-reduce-in-bf16;");
  CHECK(problems_of({.bf16 = true, .main_grads = "fp32", .grad_reduce_in_bf16 = true}) == "--grad-reduce-in-bf16;");
  const std::string fp32_grads = "--accumulate-allreduce-grads-in-fp32;";
  CHECK(problems_of({.bf16 = true, .grad_reduce_in_bf16 = true, .accumulate_grads_in_fp32 = true}) == fp32_grads);
  CHECK(problems_of({.preset = "fsdp-mixed", .accumulate_grads_in_fp32 = true}) == fp32_grads);
  CHECK(problems_of({.preset = "fsdp-mixed", .main_grads = "fp32", .accumulate_grads_in_fp32 = true}) == "");
  CHECK(problems_of({.bf16 = true, .accumulate_grads_in_fp32 = true}) == "");
  CHECK(problems_of({.bf16 = true, .main_params = "fp16", .exp_avg = "fp8", .exp_avg_sq = "x"}) ==
        "--main-params-dtype fp16;--exp-avg-dtype fp8;--exp-avg-sq-dtype x;");
  CHECK(problems_of({.exp_avg = "bf16", .exp_avg_sq = "bf16"}) == "");
  CHECK(problems_of({.fp16 = true, .initial_loss_scale = 0.5}) == "--initial-loss-scale 0.5;");
  CHECK(problems_of({.fp16 = true, .loss_scale = 128, .initial_loss_scale = 0.5}) == "");
  CHECK(problems_of({.bf16 = true, .initial_loss_scale = 0.5}) == "");
  CHECK(problems_of({.fp16 = true, .initial_loss_scale = 2, .min_loss_scale = 2}) == "");
  CHECK(problems_of({.main_grads = "bf16", .accumulate_grads_in_fp32 = true}) == fp32_grads);
  const auto message_of = [](const PrecisionOptions& options) {
    std::string out;
    check_precision(options, [&](const std::string&, const std::string& what) { out += what.substr(0, 16) + ";"; });
    return out;
  };
  CHECK(message_of({.exp_avg = "fp16", .exp_avg_sq = "fp8"}) == "is not supported;is not supported;");
  CHECK(message_of({.exp_avg = "x"}) == "must be fp32 or ;");
  CHECK(message_of({.preset = "fp32", .bf16 = true}) == "excludes --bf16;;");
  CHECK(message_of({.preset = "fp32", .fp16 = true}) == "excludes --fp16;;");
}

TEST_CASE("precision options: the loss scale is dynamic in fp16 unless constant by flag, and 1 otherwise") {
  CHECK(GradScaler(scaler_of({})).scale() == 1);
  CHECK(GradScaler(scaler_of({.bf16 = true, .loss_scale = 128})).scale() == 1);
  const GradScaler constant(scaler_of({.fp16 = true, .loss_scale = 128}));
  CHECK(constant.scale() == 128);
  CHECK_FALSE(constant.is_dynamic());
  for (std::optional<double> given : {std::optional<double>(), std::optional<double>(0)}) {
    const GradScaler dynamic(scaler_of({.fp16 = true, .loss_scale = given}));
    CHECK(dynamic.scale() == 4294967296.F);
    CHECK(dynamic.is_dynamic());
  }
  GradScaler scaler(scaler_of(
      {.fp16 = true, .initial_loss_scale = 16, .min_loss_scale = 8, .loss_scale_window = 2, .hysteresis = 1}));
  scaler.update(true);
  CHECK(scaler.scale() == 8);
  for (int i = 0; i < 2; ++i) scaler.update(false);
  CHECK(scaler.scale() == 16);
  for (int i = 0; i < 3; ++i) scaler.update(true);
  CHECK(scaler.scale() == 8);
  CHECK(scaler.is_exhausted());
}

TEST_CASE("precision options: a run reports how it differs from the checkpoint's record") {
  const Json bf16 = precision_record(find_precision("bf16"));
  CHECK(precision_difference(&bf16, find_precision("bf16")) == "");
  CHECK(precision_difference(&bf16, find_precision("deepspeed")) == "");  // apart from the load dtype
  CHECK(precision_difference(nullptr, kPrecisionFp32) == "");
  CHECK(precision_difference(nullptr, find_precision("bf16")) ==
        "compute float32, not bfloat16; residual float32, not bfloat16");
  CHECK(precision_difference(&bf16, find_precision("fsdp-mixed")) == "main_grads float32, not bfloat16");
  CHECK(precision_difference(&bf16, precision_of({.bf16 = true, .bf16_logits = true})) ==
        "logits float32, not bfloat16");
  Precision rounded = find_precision("fsdp-low");
  const Json low = precision_record(rounded);
  rounded.stochastic_rounding = true;
  CHECK(precision_difference(&low, rounded) == "no stochastic rounding");
  const Json stochastic = precision_record(rounded);
  CHECK(precision_difference(&stochastic, find_precision("fsdp-low")) == "stochastic rounding");
  CHECK(precision_difference(&stochastic, rounded) == "");
  const Json broken("bf16");
  CHECK(precision_difference(&broken, kPrecisionFp32) == "");
}
