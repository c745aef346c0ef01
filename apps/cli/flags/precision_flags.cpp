#include "cli/flags/precision_flags.h"

#include "base/str.h"
#include "optim/precision_presets.h"

namespace mtl {

void add_precision_flags(Flags& flags, PrecisionOptions& options) {
  flags.add("--precision", &options.preset, "NAME", "dtypes of all roles by name (default: fp32)",
            one_of(texts_of(precision_presets(), &PrecisionPreset::name)));
  flags.add_switch("--bf16", options.bf16, "compute in bf16, with main weights, gradients and moments in fp32");
  flags.add_switch("--fp16", options.fp16,
                   "compute in fp16, with main weights, gradients and moments in fp32 and a dynamic loss scale");
  for (const PrecisionDType& row : precision_dtype_flags())
    flags.add(row.flag, &(options.*row.given), "DTYPE", cat("dtype of ", row.meaning, ": fp32 or bf16"));
  flags.add_switch("--grad-reduce-in-bf16", options.grad_reduce_in_bf16, "same as --main-grads-dtype bf16");
  flags.add_switch("--accumulate-allreduce-grads-in-fp32,--fp32-allreduce", options.accumulate_grads_in_fp32,
                   "refuse main gradients in bf16");
  flags.add_switch("--fp32-residual-connection", options.fp32_residual, "keep the residual stream in fp32",
                   only_with("in fp32", [&options] { return precision_of(options).compute != DType::f32; }));
  flags.add_switch("--bf16-logits", options.bf16_logits, "store logits and their gradient in bf16 instead of fp32",
                   needs("layers that compute in bf16: --bf16, or such a --precision",
                         [&options] { return precision_of(options).compute == DType::bf16; }));
  flags.add_switch("--stochastic-rounding", options.stochastic_rounding, "round updates of bf16 weights stochastically",
                   needs("main weights in bf16: --precision fsdp-low, or --main-params-dtype bf16",
                         [&options] { return precision_of(options).main_params != DType::f32; }));
  flags.foreign.acknowledge(
      0, "has no effect, because the dtype flags for main weights, gradients and moments work without it",
      "--use-precision-aware-optimizer");
  flags.check([&flags, &options] {
    check_precision(options, std::bind_front(&Flags::problem, &flags));
    if (options.accumulate_grads_in_fp32 && precision_of(options).main_grads == DType::f32)
      flags.notice("--accumulate-allreduce-grads-in-fp32 has no effect, because main gradients are fp32");
  });
}

void add_loss_scale_flags(Flags& flags, PrecisionOptions& options) {
  const auto is_fp16 = [&options] { return precision_of(options).compute == DType::f16; };
  const auto only_if_dynamic = [&](Flags::Flag& flag) {
    only_with("--fp16", is_fp16)(flag);
    only_with("with --loss-scale", [&options] { return !options.has_constant_scale(); })(flag);
  };
  flags.add("--loss-scale", &options.loss_scale, "X", "constant loss scale for fp16 (default, or 0: dynamic)",
            within({0, 1e38}), only_with("--fp16", is_fp16));
  flags.add("--initial-loss-scale", &options.initial_loss_scale, "X", "initial dynamic loss scale",
            within({1e-30, 1e38}), only_if_dynamic);
  flags.add("--min-loss-scale", &options.min_loss_scale, "X",
            "smallest dynamic loss scale; an overflow there ends the run", within({1e-30, 1e38}), only_if_dynamic);
  flags.add("--loss-scale-window", &options.loss_scale_window, "N",
            "consecutive updates without overflow after which the scale doubles", at_least(1), only_if_dynamic);
  flags.add("--hysteresis", &options.hysteresis, "N",
            "halve the scale at the N-th overflow since it last doubled, and at each later one", at_least(1),
            only_if_dynamic);
}

}  // namespace mtl
