// All options for a training run and their defaults, with Megatron-LM's names and values where they exist.
// apps/cli/train/train_flags.cpp binds the command line to these options.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/batch_size.h"
#include "data/data_path.h"
#include "data/sample_order.h"
#include "data/sampler.h"
#include "device/stream.h"
#include "layout/layout.h"
#include "layout/recompute.h"
#include "models/model_dropout.h"
#include "nn/gpt_config.h"
#include "optim/lr_schedule.h"
#include "optim/muon.h"
#include "run/architecture.h"
#include "run/precision_options.h"
#include "text/tokenizer.h"

namespace mtl {

struct DataOptions {
  DataPathOptions paths;
  bool mock = false;  // generated tokens in place of files
  std::int64_t seq_length = 0;
  std::string order = "megatron";          // or feistel: data/sample_order.h
  std::string dataloader_type = "single";  // or cyclic: data/sampler.h
  bool data_sharding = true;               // cyclic only: every rank draws from its own part of the samples
  bool eod_mask_loss = false;
  bool reset_position_ids = false;
  bool reset_attention_mask = false;
  bool multiple_validation_sets = false;          // each data set for validation has a loss of its own
  std::vector<std::string> validation_set_names;  // in reports; empty: numbers
  bool allow_data_change = false;                 // allow resuming with different data or a different tokenizer

  OrderKind order_kind() const { return order == "feistel" ? OrderKind::feistel : OrderKind::megatron; }
  SamplerKind sampler_kind() const { return dataloader_type == "cyclic" ? SamplerKind::cyclic : SamplerKind::single; }
};

/// Returns true at the multiples of `interval`; never if it is absent or 0.
inline bool is_due(const std::optional<std::int64_t>& interval, std::int64_t iteration) {
  return interval.value_or(0) > 0 && iteration % *interval == 0;
}

struct BatchOptions {
  bool per_token_loss = false;  // --calculate-per-token-loss
  double z_loss = 0;            // --z-loss-coeff
  std::int64_t micro_batch_size = 1;
  // With a ramp, the last size; with a schedule, the largest. Absent: one micro-batch on every data-parallel rank.
  std::optional<std::int64_t> global_batch_size;
  std::vector<std::string> rampup;  // start, increment, samples; empty: constant
  std::string schedule;             // --step-batch-size-schedule
  bool decrease_if_needed = false;  // round sizes down to multiples of micro-batch size x data-parallel size
  std::optional<std::int64_t> train_iters, train_samples;
  std::int64_t eval_interval = 1000;  // 0: validate only after the last iteration
  std::int64_t eval_iters = 100;
  bool full_validation = false;  // a validation reads its whole set once, not eval_iters batches; the test does not

  bool validates() const { return full_validation || eval_iters > 0; }
  bool varies() const { return !rampup.empty() || !schedule.empty(); }
  /// Returns global_batch_size or its default; INT64_MAX if the default overflows.
  std::int64_t global_size(std::int64_t data_parallel) const;
  /// Returns the sizes of all updates. Throws the errors of BatchSizes, and Error(usage) if a number in the ramp is not
  /// an integer.
  BatchSizes sizes(std::int64_t data_parallel, std::int64_t seq_length) const;
  /// Returns the length of a run with `iterations` updates, for count_samples().
  RunLength run_length(std::int64_t iterations, std::int64_t data_parallel) const;
};

/// Reports a missing --seq-length and contradictory data order options. (read_split_sources() checks the paths.)
void check_data_options(const DataOptions& data, const ReportProblem& report);
/// Reports contradictory batch sizes and run lengths. Returns false if the sizes are invalid. `ranks_text` says in the
/// messages where `data_parallel` comes from; it may be empty.
bool check_batches(const BatchOptions& batch, std::int64_t data_parallel, const std::string& ranks_text,
                   std::int64_t seq_length, const ReportProblem& report);

struct OptimizerOptions {
  LrScheduleFlags schedule;
  std::string name = "adam";  // UpdateRule::name()
  double adam_beta1 = 0.9, adam_beta2 = 0.999, adam_eps = 1e-8;
  double sgd_momentum = 0.9;
  MuonRuleOptions muon;  // without the dtype of its products
  bool muon_no_split_qkv = false, muon_no_positions = false;
  std::string muon_scale_mode = "spectral";
  std::optional<std::string> muon_fp32_matmul_prec;  // medium or high; absent: as the precision says
  double clip_grad = 1.0;
};

struct CheckpointOptions {
  std::string save, load;
  std::string hf_config;                      // config.json for a --load without a configuration; empty: none
  std::optional<std::int64_t> save_interval;  // absent or 0: save only at the end
  // Saves in between, each of which the next save of either kind replaces. Absent or 0: none.
  std::optional<std::int64_t> non_persistent_interval;
  std::int64_t keep_last = 0;                   // 0: all
  std::optional<std::int64_t> retain_interval;  // --save-retain-interval: see retained()
  bool keep_best = false;                       // save the state with the lowest validation loss, and keep it
  std::string after_save;                       // a shell command to run after each save; empty: none
  bool async_save = false;                      // steps go on while a checkpoint is written
  std::optional<std::int64_t> ckpt_step;        // the iteration to load; empty: the newest
  bool finetune = false;                        // load only weights, and start at iteration 0
  bool no_load_optim = false, no_save_optim = false;
  // On a resume whose schedule differs from the checkpoint's: use the flags' or the checkpoint's. Neither: refuse.
  bool override_schedule = false, use_checkpoint_schedule = false;
  bool exit_on_missing = false;               // --load must contain a model, even if it is the same as --save
  std::optional<std::int64_t> exit_interval;  // absent or 0: run to the end
  double exit_minutes = 0;                    // --exit-duration-in-mins, counted from TrainOptions::began; 0: no limit
  std::string kill_switch_path;               // the run ends once this file exists; empty: none

  /// Old checkpoints are deleted except the newest_kept(), which is 0 to keep all, and those of iterations that are
  /// multiples of retained(), if that is not 0.
  std::int64_t newest_kept() const { return keep_last == 0 && retained() > 0 ? 2 : keep_last; }
  std::int64_t retained() const { return save_interval.value_or(0) > 0 ? retain_interval.value_or(0) : 0; }
  /// Returns true if the same command cannot resume its own checkpoints, which have no optimizer state.
  bool needs_no_load_optim() const { return no_save_optim && !no_load_optim; }
  bool is_save_due(std::int64_t iteration) const {
    return is_due(save_interval, iteration) || is_due(non_persistent_interval, iteration);
  }
  bool saves_behind_steps() const { return async_save && !save.empty(); }
};

/// What a run does besides computing all its steps one after the other.
struct CheckOptions {
  bool nonfinite = true;                         // a loss or a gradient that is not finite ends the run
  bool spiky_loss = false, large_grads = false;  // warn of those far above the first
  std::vector<std::string> iterations_to_skip;   // their samples are read, but nothing is computed
  std::string rerun_mode = "disabled";           // which steps are computed again, to find machines that compute wrong
  std::optional<std::int64_t> replica_interval;  // compares the weights of data- and context-parallel ranks

  bool repeats_unexpected() const { return rerun_mode == "validate_results"; }
  bool repeats_all() const { return rerun_mode == "report_determinism_stats"; }
};

/// A run of Weights & Biases, with Megatron-LM's names. No project: none is written.
struct WandbOptions {
  std::string project, name, entity, save_dir;
};

struct LoggingOptions {
  std::int64_t log_interval = 100;  // 0: only after the last iteration
  std::string tensorboard_dir, log_jsonl, log_prometheus;
  WandbOptions wandb;
  bool params_norm = false, num_zeros_in_grad = false;
  std::optional<double> peak_tflops;  // of one device, for MFU; absent: measured
};

/// Options for --profile. Iterations step_start + 1 to step_end are recorded, as in Megatron-LM.
struct ProfileOptions {
  bool enabled = false;
  std::int64_t step_start = 10, step_end = 12;
  std::vector<std::string> ranks = {"0"};
  std::string directory = "profile";
};

inline constexpr std::int64_t kLargestWorld = 1 << 16;  // ranks

/// The values of --cp-comm-type, by ContextExchange.
inline constexpr std::array kContextExchangeNames = {"all_gather", "p2p"};

/// The number of ranks along each axis. The data-parallel size is the world size divided by the other sizes.
struct ParallelOptions {
  std::int64_t world = 1;                  // ranks in the job, as launched
  std::optional<std::int64_t> plan_world;  // number of ranks for --dry-run to plan for
  std::int64_t tensor = 1, pipeline = 1, context = 1, expert = 1;
  std::int64_t zero_stage = 0;                         // above 0: also distributed_optimizer, which the flag sets
  bool megatron_fsdp = false;                          // zero_stage as sharding_strategy says
  bool torch_fsdp2 = false;                            // zero_stage is 3
  std::optional<std::string> sharding_strategy, fsdp;  // other names of zero_stage
  bool distributed_optimizer = false, overlap_grad_reduce = false, overlap_param_gather = false;
  std::string cp_comm_type = "all_gather";  // how context-parallel ranks exchange keys and values
  bool tp_pp_dp_mapping = false;            // ranks in the order tp-cp-ep-pp-dp
  std::optional<std::string> rank_order;    // any order; excludes tp_pp_dp_mapping
  std::optional<std::string> schedule;      // absent: 1f1b, or interleaved with several chunks per stage
  // The number of chunks per stage, directly or by their layers, and Layout::group.
  std::optional<std::int64_t> virtual_stages, layers_per_virtual_stage, group;
  std::optional<std::string> layer_layout;  // --pipeline-model-parallel-layout, which sets split.layer_counts
  std::string pipeline_split = "even";  // or balanced: by the FLOPs of the layers, the embedding and the output layer
  LayerSplit split;
  bool sequence_parallel = false;
  std::optional<std::string> recompute_granularity, recompute_method, checkpoint_method;
  std::optional<std::int64_t> recompute_num_layers;
  bool recompute_activations = false;            // --recompute-granularity selective
  bool checkpoint_activations = false;           // --recompute-granularity full, method checkpoint_method or uniform
  bool optimizer_cpu_offload = false;            // no effect on the cpu
  std::string offload_optimizer;                 // the folder of the files; empty: none
  bool cpu_offloading = false;                   // offload activations; no effect on the cpu
  std::optional<std::int64_t> offloaded_layers;  // --cpu-offloading-num-layers; absent: all but kResidentLayers
  std::optional<std::int64_t> bucket_elements;   // per bucket; absent: Megatron's max(40 M, 1 M x data parallel)
  double timeout_minutes = 10;                   // of one collective or message
  std::optional<std::int64_t> gpus_per_node;     // maximum number of ranks per host; absent: the number of GPUs

  std::int64_t data() const {
    return std::max<std::int64_t>(1, world / std::max<std::int64_t>(1, tensor * pipeline * context));
  }
  /// Returns the ZeRO stage, whichever flag sets it.
  std::int64_t zero() const { return std::max<std::int64_t>(zero_stage, distributed_optimizer ? 1 : 0); }
  /// Returns the number of ranks that have the same weights: along the data and context axes.
  std::int64_t replicas() const { return data() * context; }
  /// Returns " (8 ranks / --tensor-model-parallel-size 2 / --pipeline-model-parallel-size 1)", which explains data() in
  /// messages, or "" for one rank. Names flags at their defaults, too, because a problem that names a flag with a
  /// refused value is not reported.
  std::string data_text() const;
  /// Returns true if the stages get layers by their work. On one stage, --pipeline-split has no effect.
  bool balances_stages() const { return pipeline_split == "balanced" && pipeline > 1; }
  /// Returns the order of the axes, such as "tp-cp-ep-dp-pp".
  std::string order() const { return rank_order.value_or(tp_pp_dp_mapping ? "tp-cp-ep-pp-dp" : "tp-cp-ep-dp-pp"); }
  /// Returns the chunks of each stage; without flags that say so, 2 in a V schedule and else 1. `num_layers` is needed
  /// only with layers_per_virtual_stage. With split.layer_counts, rounds up to a whole number; check_stages() reports
  /// others.
  std::int64_t chunks(std::optional<std::int64_t> num_layers) const;
  ScheduleKind schedule_kind(std::optional<std::int64_t> num_layers) const;
};

/// Returns the recomputation that the options request.
Recompute recompute_of(const ParallelOptions& options);

/// Returns the grid of the ranks. Throws Error(usage) if the ranks do not fill it.
RankGrid rank_grid(const ParallelOptions& options);

/// Returns how layers and micro-batches are divided among the stages: the part of the layout that does not depend on
/// the number of ranks. Its grid has only the pipeline axis. `num_layers` is as for ParallelOptions::chunks.
Layout resolve_stages(const ParallelOptions& options, std::optional<std::int64_t> num_layers);

/// Returns one rank's whole layout. Throws Error(usage) if the ranks do not fill a grid.
Layout resolve_layout(const ParallelOptions& options, std::optional<std::int64_t> num_layers, int rank);

/// Flags for which this version supports at most one value. We parse them only to check the values that scripts pass.
struct FixedOptions {
  std::string muon_tp_mode = "duplicated", muon_scalar_optimizer = "adam";
  std::string non_persistent_ckpt_type = "global";
  std::int64_t ds_sequence_parallel = 1;
  bool no_pipeline_parallel = false, no_position_embedding = false;
};

struct TrainOptions {
  ArchitectureOptions architecture;
  std::optional<std::string> new_token_rows;  // NewRows of tokens that the loaded model lacks; absent: none
  DataOptions data;
  BatchOptions batch;
  OptimizerOptions optimizer;
  PrecisionOptions precision;
  CheckpointOptions checkpoint;
  CheckOptions checks;
  bool skip_train = false;  // only validate and test
  bool takes_digests() const { return checks.repeats_unexpected() || checks.repeats_all(); }
  LoggingOptions logging;
  ProfileOptions profile;
  TokenizerOptions tokenizer;
  ParallelOptions parallel;
  FixedOptions fixed;
  std::optional<double> hidden_dropout, attention_dropout;  // absent: as in default_dropout()
  ModelDropout new_model_dropout = {0.1, 0.1, 0.1};         // Megatron-LM's; a preset may have another
  std::optional<ModelDropout> loaded_dropout;               // the loaded model's, if it states it; configure() sets it
  std::int64_t seed = 1234;
  std::int64_t threads = 0;
  Device device = Device::cpu;  // resolved from device_name
  std::string device_name = "auto";
  bool cuda_graphs = true;
  bool tf32 = false;  // on a GPU: fp32 matrix multiplications may round their operands to TF32
  std::string attention_backend = "auto";
  std::string tuning_cache;       // file with measured choices; empty: in the user's cache folder; "none": no file
  std::optional<double> gpu_gib;  // --gpu-memory: GiB on the GPU that a dry run plans for
  bool dry_run = false;
  std::optional<std::string> roofline;  // hardware name; with dry_run
  bool json = false;
  double began = 0;          // when the program started, as now_seconds()
  std::string command_line;  // as typed, for the provenance of files
  std::string settings;      // values of all flags, one per line; the same on all ranks

  /// Returns the dropout where no flag sets it: the loaded model's, or else a new model's.
  const ModelDropout& default_dropout() const { return loaded_dropout ? *loaded_dropout : new_model_dropout; }
  ModelDropout dropout() const {
    const double hidden = hidden_dropout.value_or(default_dropout().hidden);
    return {hidden, attention_dropout.value_or(default_dropout().attention), hidden};
  }
  /// Returns true if the run locks --save and writes to it.
  bool writes_save() const { return !checkpoint.save.empty() && !dry_run && !skip_train; }
  std::int64_t global_batch_size() const { return batch.global_size(parallel.data()); }
  /// Returns the number of micro-batches per rank in the largest step.
  std::int64_t micro_batches() const { return global_batch_size() / (batch.micro_batch_size * parallel.data()); }
  /// Returns the number of samples on all ranks in the largest step.
  std::int64_t step_samples() const { return micro_batches() * batch.micro_batch_size * parallel.data(); }
  BatchSizes batch_sizes() const { return batch.sizes(parallel.data(), data.seq_length); }
  std::int64_t train_iters() const {
    return batch.train_samples ? batch_sizes().count_iterations(*batch.train_samples) : batch.train_iters.value_or(0);
  }
};

/// Reports missing and contradictory options, without opening files.
void check_options(const TrainOptions& options, const ReportProblem& report);

/// Reports model sizes that cannot be divided among the ranks, and schedules that cannot run the steps. `is_loaded`:
/// the sizes of the model cannot change.
void check_division(const TrainOptions& options, const GptConfig& config, bool is_loaded, const ReportProblem& report);

/// Returns the configuration of the model to build, from the flags or from the loaded model. Reports flags that
/// disagree with the loaded model, sizes that cannot be divided among the ranks, and a model that cannot be built. The
/// result is valid only if nothing is reported. If `vocab_size` is not known, any size will do: other problems do not
/// depend on it.
GptConfig resolve_config(const TrainOptions& options, std::optional<GptConfig> loaded, std::int64_t vocab_size,
                         const ReportProblem& report_problem);

}  // namespace mtl
