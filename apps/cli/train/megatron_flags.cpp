// Pre-training flags from Megatron-LM and Megatron-DeepSpeed that mtl-train lacks.
//
// No flag is ignored silently. A flag that would change the result, or that requests an unsupported feature, is refused
// with a reason and, if possible, a remedy. If only one value is supported, any other is refused. A flag is
// acknowledged only if it has no meaning here or requests what we always do.
#include "base/str.h"
#include "cli/train/train_flags.h"
#include "train/deepspeed_keys.h"

namespace mtl {

namespace {

/// Megatron-LM's flags that mtl-train refuses or acknowledges.
constexpr const char* kForeignFlags =
#include "cli/train/megatron_flags.inc"
    ;

/// Adds flags with a single supported value. --help omits them, because there is nothing to choose.
void add_single_valued(Flags& flags, FixedOptions& fixed) {
  auto only = [&](const char* name, auto& target, const char* why) {
    auto supported = target;
    Flags::Flag& flag = flags.add(name, &target, "VALUE", "");
    if constexpr (std::is_same_v<decltype(supported), std::int64_t>) within({0, 1 << 16})(flag);
    flags.check([&flags, name, &target, supported, why] {
      if (target != supported)
        flags.problem(cat(name, " ", target),
                      cat("is not supported in this version, ", why, "; use ", supported, ", or leave the flag out"));
    });
  };
  only("--muon-scalar-optimizer", fixed.muon_scalar_optimizer, "which leaves the other parameters to AdamW");
  flags.add("--muon-tp-mode", &fixed.muon_tp_mode, "VALUE", "");
  flags.check([&flags, &fixed] {
    const std::string& mode = fixed.muon_tp_mode;
    if (mode != "duplicated" && mode != "distributed")
      flags.problem(
          "--muon-tp-mode " + mode,
          "is not supported in this version, in which the result does not depend on the layout; use duplicated "
          "or distributed, which update whole matrices, or leave the flag out");
  });
  only("--non-persistent-ckpt-type", fixed.non_persistent_ckpt_type,
       "in which all ranks write one checkpoint to --save, and none to a disk or the memory of its own host");
  only("--ds-sequence-parallel-size", fixed.ds_sequence_parallel,
       "which splits sequences by --context-parallel-size alone");
}

/// Returns true if the flags, or the model that they load, leave no learned positions to turn off.
bool has_rotary_positions(const TrainOptions& options) {
  return options.architecture.is_rotary() || !options.checkpoint.load.empty();
}

/// Adds flags whose meaning depends on another flag.
void add_related(Flags& flags, TrainOptions& options) {
  FixedOptions& fixed = options.fixed;
  flags.add_switch(
      "--no-pipeline-parallel", fixed.no_pipeline_parallel, "",
      only_with("on one stage, which is the default", [&options] { return options.parallel.pipeline > 1; }));
  // Megatron-LM raises only for other positions. A loaded model brings its own.
  flags.add_switch("--no-position-embedding", fixed.no_position_embedding, "",
                   only_with("with rotary positions", [&options] { return !has_rotary_positions(options); }));
  // With this flag, Megatron-LM uses --distributed-timeout-minutes only at the start. mtl has one timeout for start and
  // training.
  const auto seconds = std::make_shared<std::optional<double>>();
  flags.add("--distributed-timeout-seconds-after-init", seconds.get(), "S", "", above(0), at_most(31536000),
            only_with("on one rank", [&options] { return options.parallel.world > 1; }));
  flags.check([&flags, &options, seconds] {
    if (*seconds) options.parallel.timeout_minutes = **seconds / 60;
    const FixedOptions& given = options.fixed;
    if (given.no_position_embedding && !has_rotary_positions(options))
      flags.problem("--no-position-embedding",
                    "is for models without learned positions; use --position-embedding-type "
                    "rope or yarn, or leave the flag out");
    if (given.no_pipeline_parallel && options.parallel.pipeline > 1)
      flags.problem("--no-pipeline-parallel", cat("contradicts --pipeline-model-parallel-size ",
                                                  options.parallel.pipeline, "; use only one of them"));
  });
}

}  // namespace

void add_megatron_flags(Flags& flags, TrainOptions& options) {
  add_single_valued(flags, options.fixed);
  add_related(flags, options);
  flags.foreign.read(kForeignFlags);
  // transformers' Trainer has the file after --deepspeed.
  flags.foreign.explain("--deepspeed --deepspeed_config --deepspeed-config --deepscale_config",
                        explain_deepspeed_config);
  flags.foreign.suggest("--learning-rate", "--lr");
  flags.foreign.suggest("--nlayers --n-layers", "--num-layers");
  flags.foreign.suggest("--nheads", "--num-attention-heads");
  flags.foreign.suggest("--sequence-length", "--seq-length");
}

}  // namespace mtl
