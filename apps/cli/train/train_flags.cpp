#include "cli/train/train_flags.h"

#include "base/str.h"
#include "ckpt/model_formats.h"
#include "cli/flags/architecture_flags.h"
#include "cli/flags/data_flags.h"
#include "cli/flags/layout_flags.h"
#include "cli/flags/model_flags.h"
#include "cli/flags/precision_flags.h"
#include "cli/flags/tokenizer_flags.h"
#include "cli/flags/update_rule_flags.h"
#include "cli/run_main.h"
#include "device/hardware.h"
#include "train/setup.h"

namespace mtl {

namespace {

void add_model_flags(Flags& flags, TrainOptions& options, const RunStart& start) {
  ArchitectureOptions& model = options.architecture;
  flags.section("Model");
  add_architecture_flags(flags, options, [&start] { return start.source.has_value(); });
  flags.add("--init-method-std", &model.init_method_std, "X", "standard deviation of initial weights (default: 0.02)",
            within({0, 100}), only_with("on a model that is loaded", [&start] { return !start.source; }));
  flags.add("--seed", &options.seed, "N", "random seed for initial weights, data order and dropout",
            within({0, UINT32_MAX}));
}

void add_sample_flags(Flags& flags, TrainOptions& options, const RunStart& start) {
  DataOptions& data = options.data;
  flags.section("Data");
  add_data_flags(flags, data);
  flags.add_switch("--mock-data", data.mock, "train on generated tokens, for benchmarks without data files");
  flags.add_switch("--eod-mask-loss", data.eod_mask_loss,
                   "leave out the loss where the input is the end of a document");
  flags.add_switch("--calculate-per-token-loss", options.batch.per_token_loss,
                   "average the loss over all tokens of a step instead of within each micro-batch first");
  flags.add("--z-loss-coeff", &options.batch.z_loss, "X",
            "add X times the square of each token's log sum exp(logits) to its loss; logged apart", within({0, 1}));
  flags.add_switch("--reset-position-ids", data.reset_position_ids,
                   "count positions from 0 after the end of a document");
  add_mask_flag(flags, data);
  flags.add_switch("--allow-data-change", data.allow_data_change, "resume even if the data or its order has changed",
                   only_with("on a run that does not resume", [&start] { return start.state.has_value(); }));
  add_tokenizer_flags(flags, options.tokenizer);
}

void add_length_flags(Flags& flags, TrainOptions& options) {
  flags.section("Batches and length");
  add_batch_flags(flags, options.batch);
  flags.add_switch("--full-validation", options.batch.full_validation,
                   "validate on the whole validation set, each sample once; --eval-iters applies to the test only");
  flags.add_switch("--multiple-validation-sets", options.data.multiple_validation_sets,
                   "report a loss for each data set of the validation data",
                   needs("--full-validation: every validation reads the whole sets",
                         [&options] { return options.batch.full_validation; }));
  flags.add("--validation-set-names", &options.data.validation_set_names, "NAME...",
            "names of these sets in reports (default: 0, 1, ...)",
            needs("--multiple-validation-sets", [&options] { return options.data.multiple_validation_sets; }));
  flags.add("--exit-interval", &options.checkpoint.exit_interval, "N",
            "save and exit after an iteration that is a multiple of N; 0: never", at_least(0));
  flags.add("--exit-duration-in-mins", &options.checkpoint.exit_minutes, "X",
            "save and exit X minutes after the start of the program; 0: no limit", within({0, 1e6}));
  flags.add("--kill-switch-path", &options.checkpoint.kill_switch_path, "FILE",
            "save and exit once FILE exists; if it exists at the start, do not train");
  flags.add_switch("--skip-train", options.skip_train, "load the model, validate and test it, and exit",
                   needs("validation: --eval-iters above 0, or --full-validation",
                         [&options] { return options.batch.validates(); }));
  flags.check([&options] {
    if (options.skip_train) options.batch.eval_interval = 0;  // the only validation is the one at the end
  });
}

void add_check_flags(Flags& flags, TrainOptions& options) {
  CheckOptions& checks = options.checks;
  flags.section("Checks");
  flags.add_switch("--no-check-for-nan-in-loss-and-grad", checks.nonfinite,
                   "go on after a loss or a gradient that is not finite, instead of ending the run", inverted,
                   only_with("with a dynamic loss scale, which always goes on",
                             [&options] { return !scaler_of(options.precision).is_dynamic; }));
  flags.add_switch("--check-for-spiky-loss", checks.spiky_loss,
                   "warn of a loss that is 10 times the largest of the first 100");
  flags.add_switch("--check-for-large-grads", checks.large_grads,
                   "warn of a gradient norm that is 10 times the largest of the first 100");
  flags.add("--rerun-mode", &checks.rerun_mode, "MODE",
            "steps to compute again, to find machines that compute wrong: with validate_results, those that are not as "
            "expected; with report_determinism_stats, all",
            one_of({"disabled", "validate_results", "report_determinism_stats"}));
  flags.add("--check-weight-hash-across-dp-replicas-interval", &checks.replica_interval, "N",
            "compare the weights of data- and context-parallel ranks after each iteration that is a multiple of N, and "
            "before each save; 0: never",
            at_least(0), needs("replicas: a --zero-stage below 3", [&options] { return options.parallel.zero() < 3; }),
            only_with("on one data-parallel rank", [&options] { return options.parallel.replicas() > 1; }));
  flags.add("--iterations-to-skip", &checks.iterations_to_skip, "N...",
            "iterations whose samples are read, but for which nothing is computed");
}

void add_optimizer_flags(Flags& flags, TrainOptions& options) {
  OptimizerOptions& optimizer = options.optimizer;
  LrScheduleFlags& schedule = optimizer.schedule;
  const auto decays = [&schedule] { return schedule.lr_decay_style != "constant"; };
  const auto is_wsd = [&schedule] { return schedule.lr_decay_style == "WSD"; };
  const auto grows = [&schedule] { return schedule.weight_decay_incr_style != "constant"; };
  const char* constant = "with --lr-decay-style constant";
  flags.section("Optimizer");
  add_update_rule_flag(flags, optimizer);
  flags.add("--lr", &schedule.lr, "X", "peak learning rate; required", within({0, 1e38}));
  flags.add("--min-lr", &schedule.min_lr, "X", "learning rate at the end of the decay", within({0, 1e6}),
            only_with(constant, decays));
  flags.add("--decoupled-lr", &schedule.decoupled_lr, "X",
            "peak learning rate of the token embedding and the output layer, if it is not --lr", within({0, 1e38}));
  flags.add("--decoupled-min-lr", &schedule.decoupled_min_lr, "X",
            "learning rate of these at the end of the decay (default: --min-lr)", within({0, 1e6}),
            only_with("--decoupled-lr", [&schedule] { return schedule.decoupled_lr.has_value(); }));
  flags.add("--lr-decay-style", &schedule.lr_decay_style, "STYLE", "decay shape",
            one_of({"constant", "linear", "cosine", "inverse-square-root", "WSD"}));
  flags.only_with(constant, decays, [&] {
    flags.add("--lr-decay-iters", &schedule.lr_decay_iters, "N", "updates until the minimum (default: the entire run)",
              at_least(1));
    flags.add("--lr-decay-samples", &schedule.lr_decay_samples, "N", "--lr-decay-iters in samples", at_least(1));
  });
  flags.add("--lr-warmup-iters", &schedule.lr_warmup_iters, "N", "updates of linear warm-up", at_least(0));
  flags.add("--lr-warmup-samples", &schedule.lr_warmup_samples, "N", "--lr-warmup-iters in samples", at_least(0));
  flags.add("--lr-warmup-fraction", &schedule.lr_warmup_fraction, "X", "warm-up length as a fraction of the decay",
            at_least(0), below(1));
  flags.add("--lr-warmup-init", &schedule.lr_warmup_init, "X", "learning rate at the start of the warm-up",
            within({0, 1e6}), only_with("--lr-warmup-iters, --lr-warmup-samples or --lr-warmup-fraction", [&schedule] {
              return schedule.lr_warmup_iters > 0 || schedule.lr_warmup_samples > 0 ||
                     schedule.lr_warmup_fraction.value_or(0) > 0;
            }));
  flags.only_with("--lr-decay-style WSD", is_wsd, [&] {
    flags.add("--lr-wsd-decay-style", &schedule.lr_wsd_decay_style, "STYLE", "shape of the decay at the end of WSD",
              one_of({"exponential", "linear", "cosine", "minus_sqrt"}));
    flags.add("--lr-wsd-decay-iters", &schedule.lr_wsd_decay_iters, "N", "length of that decay in updates",
              at_least(1));
    flags.add("--lr-wsd-decay-samples", &schedule.lr_wsd_decay_samples, "N", "length of that decay in samples",
              at_least(1));
  });
  flags.add("--weight-decay", &schedule.weight_decay, "X", "weight decay; none on biases and norms", within({0, 1e6}),
            only_with("with --weight-decay-incr-style linear or cosine", [grows] { return !grows(); }));
  flags.add("--weight-decay-incr-style", &schedule.weight_decay_incr_style, "STYLE",
            "change of the weight decay over the run", one_of({"constant", "linear", "cosine"}));
  flags.add("--start-weight-decay", &schedule.start_weight_decay, "X", "weight decay at the start, if it changes",
            within({0, 1e6}));
  flags.add("--end-weight-decay", &schedule.end_weight_decay, "X", "weight decay at the end, if it changes",
            within({0, 1e6}));
  add_update_rule_flags(flags, optimizer);
  flags.add("--clip-grad", &optimizer.clip_grad, "X", "maximum gradient norm; 0: no limit", within({0, 1e30}));
}

void add_checkpoint_flags(Flags& flags, TrainOptions& options, const RunStart& start) {
  CheckpointOptions& checkpoint = options.checkpoint;
  const auto saves = [&checkpoint] { return !checkpoint.save.empty(); };
  const auto loads = [&checkpoint] { return !checkpoint.load.empty(); };
  const auto resumes = [&start] { return start.state.has_value(); };
  // A value of 0 asks for nothing.
  const auto with_save = [saves](const auto& value) {
    return only_with("--save", [saves, &value] { return saves() || value == 0; });
  };
  flags.section("Checkpoints");
  flags.add("--save", &checkpoint.save, "DIR", "folder to save checkpoints in, and to resume from if it contains one");
  flags.add("--save-interval,--persistent-save-interval", &checkpoint.save_interval, "N",
            "iterations between saves (default, or 0: only at the end)", at_least(0),
            with_save(checkpoint.save_interval));
  flags.add("--non-persistent-save-interval", &checkpoint.non_persistent_interval, "N",
            "iterations between saves that stay only until the next one of either kind; 0: none", at_least(0),
            with_save(checkpoint.non_persistent_interval),
            only_with("with a --save-interval that divides it", [&checkpoint] {
              return !is_due(checkpoint.save_interval, checkpoint.non_persistent_interval.value_or(0)) ||
                     checkpoint.non_persistent_interval == 0;
            }));
  flags.add("--keep-last", &checkpoint.keep_last, "N", "checkpoints to keep, at least 2; 0 keeps all", at_least(0),
            with_save(checkpoint.keep_last));
  flags.add_switch("--keep-best", checkpoint.keep_best,
                   "also save after a validation with the lowest loss so far, and keep that checkpoint",
                   only_with("--save", saves),
                   needs("validation: --eval-iters above 0, or --full-validation",
                         [&options] { return options.batch.validates(); }));
  flags.add("--after-save", &checkpoint.after_save, "COMMAND",
            "shell command to run after each save, with $MTL_CHECKPOINT and $MTL_ITERATION",
            only_with("--save", saves));
  flags.add(
      "--save-retain-interval", &checkpoint.retain_interval, "N",
      "keep the checkpoints of iterations that are multiples of N, and delete others as --keep-last says, with 2 as "
      "its default",
      at_least(1), only_with("--save-interval", [&checkpoint, saves] {
        return saves() && checkpoint.save_interval.value_or(0) > 0;
      }));
  flags.add_switch("--async-save", checkpoint.async_save,
                   "train while checkpoints are written, from a copy in host memory", only_with("--save", saves));
  flags.add_switch("--no-save-optim", checkpoint.no_save_optim,
                   "save weights without the optimizer's state; a resume then needs --no-load-optim",
                   only_with("--save", saves));
  flags.add("--load", &checkpoint.load, "PATH", cat("model to resume or to start from: ", loadable_models()));
  add_hf_config_flag(flags, checkpoint.hf_config, only_with("--load", loads));
  flags.add("--ckpt-step", &checkpoint.ckpt_step, "N",
            "resume the checkpoint of iteration N, and rename later ones in --save", at_least(0),
            needs("--load PATH or --save DIR", [loads, saves] { return loads() || saves(); }));
  flags.add_switch("--finetune", checkpoint.finetune, "load only the weights of --load, and start at iteration 0",
                   needs("--load PATH: the model to start from", loads));
  flags.add(
      "--new-token-rows", &options.new_token_rows, "HOW",
      "add the tokenizer's tokens that the model of --load lacks: embedding rows that are the mean of the model's "
      "rows, or initialized at random",
      one_of({"mean", "init"}), needs("--load PATH: the model to extend", loads));
  flags.add_switch("--no-load-optim", checkpoint.no_load_optim, "start with optimizer moments of zero",
                   only_with("on a run that loads no optimizer state",
                             [&options, &start] { return start.source && !options.checkpoint.finetune; }));
  flags.add_switch("--override-opt_param-scheduler,--override-opt-param-scheduler,--override-lr-scheduler",
                   checkpoint.override_schedule,
                   "resume with the schedule of the flags, even if the checkpoint's differs",
                   only_with("on a run that does not resume", resumes));
  flags.add_switch(
      "--use-checkpoint-opt_param-scheduler,--use-checkpoint-opt-param-scheduler,--use-checkpoint-lr-scheduler",
      checkpoint.use_checkpoint_schedule, "resume with the schedule of the checkpoint, not of the flags",
      only_with("on a run that does not resume", resumes));
  flags.check([&flags, &checkpoint] {
    if (checkpoint.override_schedule && checkpoint.use_checkpoint_schedule)
      flags.problem("--override-opt_param-scheduler, --use-checkpoint-opt_param-scheduler",
                    "exclude each other; use only one of them");
    if (checkpoint.no_load_optim && checkpoint.use_checkpoint_schedule)
      flags.problem("--use-checkpoint-opt_param-scheduler",
                    "excludes --no-load-optim, which starts the flags' schedule; use only one of them");
  });
  flags.add_switch("--exit-on-missing-checkpoint", checkpoint.exit_on_missing,
                   "fail if --load contains no checkpoint, even if it is also --save", only_with("--load", loads));
}

void add_profile_flags(Flags& flags, ProfileOptions& profile) {
  const auto is_profiled = [&profile] { return profile.enabled; };
  flags.add_switch("--profile", profile.enabled, "record the operators of some iterations as tables and a trace");
  flags.only_with("--profile", is_profiled, [&] {
    flags.add("--profile-step-start", &profile.step_start, "N", "record after iteration N", at_least(0));
    flags.add("--profile-step-end", &profile.step_end, "N", "record until iteration N has ended", at_least(1));
    flags.add("--profile-ranks", &profile.ranks, "N...", "ranks to record");
    flags.add("--profile-dir", &profile.directory, "DIR", "folder for the tables and the trace");
  });
}

void add_wandb_flags(Flags& flags, WandbOptions& wandb, const std::string& save) {
  flags.add("--wandb-project", &wandb.project, "NAME", "write a run of Weights & Biases, to upload with wandb sync",
            needs("--save or --wandb-save-dir", [&wandb, &save] { return !save.empty() || !wandb.save_dir.empty(); }));
  flags.only_with(
      "--wandb-project", [&wandb] { return !wandb.project.empty(); },
      [&flags, &wandb] {
        flags.add("--wandb-exp-name", &wandb.name, "NAME", "name of the run (default: Weights & Biases chooses one)");
        flags.add("--wandb-entity", &wandb.entity, "NAME", "user or team of the project (default: of who uploads it)");
        flags.add("--wandb-save-dir", &wandb.save_dir, "DIR",
                  "folder of the run (default: the folder wandb in --save)");
      });
  flags.check([&wandb, &save] {
    if (!wandb.project.empty() && wandb.save_dir.empty() && !save.empty()) wandb.save_dir = save + "/wandb";
  });
}

void add_logging_flags(Flags& flags, TrainOptions& options) {
  LoggingOptions& logging = options.logging;
  const auto plans = [&options] { return options.dry_run; };
  flags.section("Reports");
  flags.add("--log-interval", &logging.log_interval, "N", "iterations between log lines; 0: only at the end",
            at_least(0));
  flags.add("--tensorboard-dir", &logging.tensorboard_dir, "DIR", "write TensorBoard event files");
  flags.add("--log-jsonl", &logging.log_jsonl, "FILE", "write metrics as JSON lines");
  flags.add("--log-prometheus", &logging.log_prometheus, "FILE.prom",
            "keep the newest metrics in a file for Prometheus' node exporter");
  add_wandb_flags(flags, logging.wandb, options.checkpoint.save);
  flags.add("--peak-tflops", &logging.peak_tflops, "X", "peak of this machine in TFLOP/s, for MFU (default: measured)",
            within({1e-9, 1e9}));
  add_profile_flags(flags, options.profile);
  flags.add_switch("--log-params-norm", logging.params_norm, "log the norm of all parameters after the update");
  flags.add_switch("--log-num-zeros-in-grad", logging.num_zeros_in_grad, "log how many elements of the gradient are 0");
  flags.add_switch("--dry-run", options.dry_run, "print parameters, memory and FLOPs of the run, and exit");
  add_world_size_flag(flags, options.parallel, "with --dry-run: ranks to plan for (default: the fewest possible)",
                      needs("--dry-run: a run has the ranks that mpirun or srun starts", plans));
  flags.add(
      "--roofline", &options.roofline, "GPU", "with --dry-run: least time of a step and of its operators on this GPU",
      one_of(texts_of(known_hardware(), &Hardware::name)), needs("--dry-run: a run is measured with --profile", plans));
  flags.add_switch("--json", options.json, "with --dry-run: print the plan as JSON",
                   needs("--dry-run: a run writes JSON lines to --log-jsonl FILE", plans));
  flags.section("Machine");
  add_device_flag(flags, options.device_name);
  const auto is_gpu = [&options] { return options.device == Device::cuda; };
  flags.add_switch("--no-cuda-graphs", options.cuda_graphs,
                   "launch the kernels of a step one by one instead of as CUDA graphs", inverted,
                   only_with("on the CPU", is_gpu));
  add_node_size_flag(flags, options.parallel, "maximum number of ranks per host (default: as many as it has GPUs)",
                     only_with("--device cuda or auto", [&options] { return options.device_name != "cpu"; }));
  flags.add_switch(
      "--tf32", options.tf32, "let a GPU round the operands of fp32 products to TF32",
      needs("a GPU, and fp32: the CPU multiplies in fp32, and products of bf16 and fp16 do not use TF32",
            [&options, is_gpu] { return is_gpu() && precision_of(options.precision).compute == DType::f32; }));
  flags.add("--attention-backend", &options.attention_backend, "NAME",
            "implementations of attention that a GPU may use",
            one_of({kAttentionBackends.begin(), kAttentionBackends.end()}), only_with("on the CPU", is_gpu));
  flags.add("--tuning-cache", &options.tuning_cache, "FILE",
            "file that records the fastest algorithms of a GPU; none: no file", only_with("on the CPU", is_gpu));
  flags.add("--gpu-memory", &options.gpu_gib, "GIB", "with --dry-run: GPU memory that the run must fit in",
            within({0.001, 1e6}), needs("--dry-run: a run uses the GPU of its machine", plans),
            only_with("on the CPU, whose memory is the host's", is_gpu));
  add_threads_flag(flags, options.threads);
}

void add_parallel_flags(Flags& flags, TrainOptions& options) {
  ParallelOptions& parallel = options.parallel;
  flags.section("Parallelism");
  add_grid_flags(flags, parallel);
  add_schedule_flag(flags, parallel, "--pipeline-schedule",
                    only_with("on one stage", [&parallel] { return parallel.pipeline > 1; }));
  add_interleaving_flags(flags, parallel);
  add_stage_flags(flags, parallel);
  add_sharing_flags(flags, parallel);
  add_recompute_flags(flags, parallel);
  add_offload_flags(flags, parallel, [&options] { return options.device == Device::cuda; });
  flags.add("--distributed-timeout-minutes", &parallel.timeout_minutes, "X",
            "longest wait for other ranks before the job ends", above(0), at_most(525600),
            only_with("on one rank", [&parallel] { return parallel.world > 1; }));
}

}  // namespace

void resolve_world_size(TrainOptions& options, int launched) {
  ParallelOptions& parallel = options.parallel;
  parallel.world = launched;
  if (options.dry_run && (parallel.plan_world || launched == 1))
    parallel.world = parallel.plan_world.value_or(std::max<std::int64_t>(1, parallel.tensor) *
                                                  std::max<std::int64_t>(1, parallel.pipeline) *
                                                  std::max<std::int64_t>(1, parallel.context));
}

void add_train_flags(Flags& flags, TrainOptions& options, const RunStart& start) {
  add_model_flags(flags, options, start);
  add_sample_flags(flags, options, start);
  add_length_flags(flags, options);
  add_check_flags(flags, options);
  add_optimizer_flags(flags, options);
  flags.section("Precision");
  add_precision_flags(flags, options.precision);
  add_loss_scale_flags(flags, options.precision);
  add_checkpoint_flags(flags, options, start);
  add_logging_flags(flags, options);
  add_parallel_flags(flags, options);
  add_megatron_flags(flags, options);
  flags.check([&] {
    resolve_data_flags(flags, options.data, options.batch, options.parallel.data());
    check_options(options, std::bind_front(&Flags::problem, &flags));
    check_data_source(options, std::bind_front(&Flags::problem, &flags));
  });
}

}  // namespace mtl
