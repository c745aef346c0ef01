#include "train/options.h"

#include "base/error.h"
#include "base/str.h"

namespace mtl {

using Report = std::function<void(std::string flag, std::string what)>;

namespace {

/// The flag that decides the sizes, and its value.
std::string size_flag(const BatchOptions& batch, std::int64_t global) {
  if (!batch.schedule.empty()) return "--step-batch-size-schedule " + batch.schedule;
  if (!batch.rampup.empty()) return "--rampup-batch-size " + join(batch.rampup, " ");
  return cat("--global-batch-size ", global);
}

bool check_sizes(const BatchOptions& batch, std::int64_t data_parallel, std::int64_t seq_length, const Report& report) {
  const std::int64_t micro = batch.micro_batch_size, global = batch.global_on(data_parallel);
  bool is_good = true;
  const auto size = [&](const char* flag, std::int64_t samples) {
    if (samples >= 1 && samples <= kLargestBatch) return;
    is_good = false;
    report(cat(flag, " ", samples), samples < 1 ? "must be at least 1" : cat("must be at most ", kLargestBatch));
  };
  size("--micro-batch-size", micro);
  if (is_good || batch.global_batch_size) size("--global-batch-size", global);
  if (!is_good) return false;
  const std::int64_t once = micro * data_parallel;
  if (global % once != 0 && !batch.varies() && !batch.decrease_if_needed) {
    std::int64_t below = global / once * once;
    std::int64_t closest = below == 0 || global - below > below + once - global ? below + once : below;
    report(cat("--global-batch-size ", global), cat("is not a multiple of micro-batch-size ", micro,
                                                    " x data-parallel size ", data_parallel, "; nearest: ", closest));
    return false;
  }
  try {
    const BatchSizes sizes = batch.sizes(data_parallel, seq_length);
    if (!batch.schedule.empty() && global != sizes.largest() && !batch.decrease_if_needed) {
      report(cat("--global-batch-size ", global),
             cat("differs from the largest size of --step-batch-size-schedule, ", sizes.largest(), "; leave it out"));
      return false;
    }
  } catch (const Error& error) {
    report(size_flag(batch, global), error.what());
    return false;
  }
  return true;
}

}  // namespace

std::int64_t BatchOptions::global_on(std::int64_t data_parallel) const {
  std::int64_t once = 0;
  if (global_batch_size) return *global_batch_size;
  return __builtin_mul_overflow(micro_batch_size, data_parallel, &once) ? INT64_MAX : once;
}

BatchSizes BatchOptions::sizes(std::int64_t data_parallel, std::int64_t seq_length) const {
  BatchSizeOptions options;
  options.global_batch_size = global_on(data_parallel);
  options.micro_batch_size = micro_batch_size;
  options.data_parallel_size = data_parallel;
  if (!rampup.empty()) {
    options.rampup.emplace();
    for (const std::string& word : rampup) {
      const auto number = parse_int(word);
      if (!number) fail(Exit::usage, "'", word, "' is no whole number");
      options.rampup->push_back(*number);
    }
  }
  options.schedule = schedule;
  if (seq_length > 0) options.seq_length = seq_length;
  options.decrease_if_needed = decrease_if_needed;
  return BatchSizes(options);
}

RunLength BatchOptions::run_length(std::int64_t iterations, std::int64_t data_parallel) const {
  return {iterations, global_on(data_parallel), eval_interval, eval_iters, train_samples};
}

void check_data_options(const DataOptions& data, const Report& report) {
  if (data.seq_length == 0) report("--seq-length", "is required, at least 1: tokens of a sample");
  if (data.seq_length < 0) report(cat("--seq-length ", data.seq_length), "must be at least 1");
  if (data.order == "feistel" && data.dataloader_type == "cyclic")
    report("--dataloader-type cyclic", "shuffles what --data-order feistel has shuffled; give one of them");
  if (!data.data_sharding && data.dataloader_type != "cyclic")
    report("--no-data-sharding", "needs --dataloader-type cyclic: in a single pass no rank owns samples");
  read_split_sources(data.paths, report);
}

bool check_batches(const BatchOptions& batch, std::int64_t data_parallel, std::int64_t seq_length,
                   const Report& report) {
  const bool has_sizes = check_sizes(batch, data_parallel, seq_length, report);
  if (batch.varies() && !batch.train_samples)
    report(batch.rampup.empty() ? "--step-batch-size-schedule" : "--rampup-batch-size",
           "needs a run that is counted in samples; give --train-samples");
  if (batch.train_iters && batch.train_samples) report("--train-samples", "excludes --train-iters; give one of them");
  if (batch.train_samples && has_sizes) {
    const BatchSizes sizes = batch.sizes(data_parallel, seq_length);
    if (sizes.count_iterations(*batch.train_samples) < 1)
      report(cat("--train-samples ", *batch.train_samples),
             cat("must be at least one global batch: ", sizes.running(0)));
  } else if (batch.train_iters && *batch.train_iters < 1) {
    report(cat("--train-iters ", *batch.train_iters), "must be at least 1");
  } else if (batch.train_iters && has_sizes && *batch.train_iters > INT64_MAX / batch.global_on(data_parallel)) {
    report(cat("--train-iters ", *batch.train_iters),
           cat("of ", batch.global_on(data_parallel), " samples each are more than can be counted"));
  }
  if (batch.eval_interval < 1) report(cat("--eval-interval ", batch.eval_interval), "must be at least 1");
  if (batch.eval_iters < 0) report(cat("--eval-iters ", batch.eval_iters), "must not be negative");
  return has_sizes;
}

namespace {

void check_optimizer(const TrainOptions& options, const Report& report) {
  const OptimizerOptions& optimizer = options.optimizer;
  auto decay = [&](const char* flag, double beta) {
    if (!(beta >= 0 && beta < 1)) report(cat(flag, " ", beta), "must be at least 0 and below 1");
  };
  decay("--adam-beta1", optimizer.adam_beta1);
  decay("--adam-beta2", optimizer.adam_beta2);
  if (!(optimizer.adam_eps > 0)) report(cat("--adam-eps ", optimizer.adam_eps), "must be positive");
  if (!(optimizer.clip_grad >= 0))
    report(cat("--clip-grad ", optimizer.clip_grad), "must not be negative; 0 is no limit");
}

void check_architecture(const TrainOptions& options, const Report& report) {
  const ArchitectureOptions& model = options.architecture;
  if (model.norm_epsilon && !(*model.norm_epsilon > 0))
    report(cat("--norm-epsilon ", *model.norm_epsilon), "must be positive");
  if (model.init_method_std && !(*model.init_method_std >= 0))
    report(cat("--init-method-std ", *model.init_method_std), "must not be negative");
  if (model.make_vocab_size_divisible_by < 1) {
    report(cat("--make-vocab-size-divisible-by ", model.make_vocab_size_divisible_by), "must be at least 1");
  }
}

void check_rest(const TrainOptions& options, const Report& report) {
  check_data_options(options.data, report);
  auto probability = [&](const char* flag, double p) {
    if (!(p >= 0 && p < 1)) report(cat(flag, " ", p), "must be at least 0 and below 1");
  };
  probability("--hidden-dropout", options.hidden_dropout);
  probability("--attention-dropout", options.attention_dropout);
  if (options.seed < 0 || options.seed > 0xFFFFFFFFll)
    report(cat("--seed ", options.seed), "must be between 0 and 4294967295");
  if (options.logging.log_interval < 1)
    report(cat("--log-interval ", options.logging.log_interval), "must be at least 1");
  const CheckpointOptions& checkpoint = options.checkpoint;
  if (checkpoint.save_interval && *checkpoint.save_interval < 1)
    report(cat("--save-interval ", *checkpoint.save_interval), "must be at least 1");
  if (checkpoint.save_interval && checkpoint.save.empty()) report("--save-interval", "needs --save PATH");
  if (checkpoint.exit_interval && *checkpoint.exit_interval < 1)
    report(cat("--exit-interval ", *checkpoint.exit_interval), "must be at least 1");
  if (checkpoint.keep_last != 0 && checkpoint.keep_last < 2)
    report(cat("--keep-last ", checkpoint.keep_last), "must be at least 2, or 0 to keep all");
  if (checkpoint.keep_last != 0 && checkpoint.save.empty()) report("--keep-last", "needs --save PATH");
  if (options.json && !options.dry_run)
    report("--json", "is for --dry-run; a run writes JSON lines to --log-jsonl FILE");
  if (checkpoint.ckpt_step && *checkpoint.ckpt_step < 0)
    report(cat("--ckpt-step ", *checkpoint.ckpt_step), "must not be negative");
  if (checkpoint.ckpt_step && checkpoint.load.empty() && checkpoint.save.empty())
    report("--ckpt-step", "needs --load PATH or --save DIR");
  if (checkpoint.finetune && checkpoint.load.empty())
    report("--finetune", "needs --load PATH: the model to start from");
  if (options.logging.peak_tflops && !(*options.logging.peak_tflops > 0)) report("--peak-tflops", "must be positive");
}

void check_parallel(const TrainOptions& options, const Report& report) {
  const ParallelOptions& parallel = options.parallel;
  bool sizes_are_good = true;
  auto size = [&](const char* flag, std::int64_t ranks) {
    if (ranks >= 1) return;
    sizes_are_good = false;
    report(cat(flag, " ", ranks), "must be at least 1");
  };
  size("--tensor-model-parallel-size", parallel.tensor);
  size("--pipeline-model-parallel-size", parallel.pipeline);
  if (parallel.context != 1)
    report(cat("--context-parallel-size ", parallel.context), "is not supported in this version; only 1 is");
  if (!sizes_are_good) return;
  std::int64_t model = parallel.tensor * parallel.pipeline;
  if (parallel.world % model != 0) {
    report(
        cat("--tensor-model-parallel-size ", parallel.tensor, " x --pipeline-model-parallel-size ", parallel.pipeline),
        cat("need a multiple of ", model, " ranks, there ", parallel.world == 1 ? "is " : "are ", parallel.world,
            "; start them with mpirun -n ", (parallel.world / model + 1) * model));
  }
  if (parallel.sequence_parallel && options.data.seq_length % parallel.tensor != 0) {
    report("--sequence-parallel", cat("cuts --seq-length ", options.data.seq_length, " into ", parallel.tensor,
                                      " parts of different length; make it a multiple"));
  }
  if (parallel.overlap_param_gather && !parallel.distributed_optimizer)
    report("--overlap-param-gather", "needs --use-distributed-optimizer: otherwise nothing is gathered");
  if (parallel.overlap_param_gather && !parallel.overlap_grad_reduce)
    report("--overlap-param-gather", "needs --overlap-grad-reduce too, as in Megatron-LM");
  if (parallel.bucket_elements && *parallel.bucket_elements < 1)
    report(cat("--ddp-bucket-size ", *parallel.bucket_elements), "must be at least 1");
  if (!(parallel.timeout_minutes > 0))
    report(cat("--distributed-timeout-minutes ", parallel.timeout_minutes), "must be positive");
}

/// What the model and the ranks must agree on.
void check_division(const TrainOptions& options, const GptConfig& config, const Report& report) {
  const ParallelOptions& parallel = options.parallel;
  auto divides = [&](const char* flag, std::int64_t number) {
    if (parallel.tensor >= 1 && number % parallel.tensor != 0)
      report(cat(flag, " ", number), cat("is not a multiple of --tensor-model-parallel-size ", parallel.tensor));
  };
  divides("--num-attention-heads", config.num_heads);
  divides("--ffn-hidden-size", config.ffn_hidden_size);
  if (parallel.tensor < 1 || parallel.pipeline < 1 || parallel.context != 1 || config.num_layers < 1 ||
      parallel.world % (parallel.tensor * parallel.pipeline) != 0)
    return;
  try {
    placement_of(parallel, 0).split(config.num_layers);
  } catch (const Error& error) {
    report("--pipeline-model-parallel-size", error.what());
  }
}

}  // namespace

Placement placement_of(const ParallelOptions& options, int rank) {
  GridSizes sizes;
  sizes.tensor = static_cast<int>(options.tensor);
  sizes.pipeline = static_cast<int>(options.pipeline);
  sizes.context = static_cast<int>(options.context);
  sizes.data = static_cast<int>(options.data());
  Placement placement;
  placement.grid = RankGrid(sizes, options.tp_pp_dp_mapping ? "tp-cp-ep-pp-dp" : "tp-cp-ep-dp-pp");
  if (placement.grid.world() != options.world)
    fail(Exit::usage, options.world, " ranks do not fill a grid of ", placement.grid.world());
  placement.rank = rank;
  placement.sequence_parallel = options.sequence_parallel;
  placement.shard_optimizer = options.distributed_optimizer;
  placement.schedule = options.schedule == "gpipe" ? ScheduleKind::gpipe : ScheduleKind::one_forward_one_backward;
  placement.first_stage_layers = options.first_stage_layers;
  placement.last_stage_layers = options.last_stage_layers;
  placement.account_for_embedding = options.account_for_embedding;
  placement.account_for_loss = options.account_for_loss;
  return placement;
}

void check_options(const TrainOptions& options, const Report& report) {
  check_parallel(options, report);
  bool has_sizes = check_batches(options.batch, options.parallel.data(), options.data.seq_length, report);
  if (!options.batch.train_iters && !options.batch.train_samples && !options.dry_run)
    report("--train-iters", "is required, or --train-samples");
  check_architecture(options, report);
  check_optimizer(options, report);
  check_rest(options, report);
  if (!options.optimizer.schedule.lr && options.dry_run) return;
  if (!options.optimizer.schedule.lr && !options.batch.train_iters && !options.batch.train_samples)
    report("--lr", "is required: the largest learning rate");
  if (has_sizes && options.train_iters() >= 1) {
    check_schedule(options.optimizer.schedule,
                   {options.batch.train_iters, options.batch.train_samples, options.global_batch_size()}, report);
  }
}

namespace {

/// One flag of the architecture: with a loaded model it must agree or be absent, without one it may be required.
template <class T>
void settle(T& value, const std::optional<T>& given, bool loaded, bool required, const char* flag,
            const Report& report) {
  if (loaded) {
    if (given && *given != value) report(cat(flag, " ", *given), cat("the model that is loaded has ", value));
  } else if (given) {
    value = *given;
  } else if (required) {
    report(flag, "is required without --load");
  }
}

}  // namespace

GptConfig resolve_config(const TrainOptions& options, std::optional<GptConfig> loaded, std::int64_t vocab_size,
                         const Report& report) {
  const ArchitectureOptions& given = options.architecture;
  bool is_loaded = loaded.has_value();
  GptConfig config = loaded.value_or(GptConfig{});
  settle(config.num_layers, given.num_layers, is_loaded, true, "--num-layers", report);
  settle(config.hidden_size, given.hidden_size, is_loaded, true, "--hidden-size", report);
  settle(config.num_heads, given.num_attention_heads, is_loaded, true, "--num-attention-heads", report);
  settle(config.ffn_hidden_size, given.ffn_hidden_size, is_loaded, false, "--ffn-hidden-size", report);
  settle(config.max_positions, given.max_position_embeddings, is_loaded, true, "--max-position-embeddings", report);
  settle(config.norm_eps, given.norm_epsilon, is_loaded, false, "--norm-epsilon", report);
  if (!is_loaded) {
    config.init_std = given.init_method_std.value_or(config.init_std);
    config.vocab_size = vocab_size;
  } else if (vocab_size > config.vocab_size) {
    report("--vocab-file",
           cat("the tokenizer has ", vocab_size, " tokens, the model that is loaded has ", config.vocab_size));
  }
  config.complete();
  if (config.max_positions > 0 && options.data.seq_length > config.max_positions) {
    report(cat("--seq-length ", options.data.seq_length),
           cat("is longer than the ", config.max_positions, " positions of the model"));
  }
  check_division(options, config, report);
  return config;
}

}  // namespace mtl
