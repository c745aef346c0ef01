#include "run/options.h"

#include <numeric>

#include "base/checked.h"
#include "base/enum_index.h"
#include "base/error.h"
#include "base/str.h"
#include "layout/schedule.h"
#include "layout/stages.h"
#include "nn/model_build.h"
#include "run/stage_checks.h"

namespace mtl {

namespace {

constexpr std::int64_t kMaxMicroBatches = 1 << 20;  // per step; planning and scheduling take time for each micro-batch

/// Returns the flag that determines batch sizes, with its value.
std::string size_flag(const BatchOptions& batch, std::int64_t global) {
  if (!batch.schedule.empty()) return "--step-batch-size-schedule " + batch.schedule;
  if (!batch.rampup.empty()) return "--rampup-batch-size " + join(batch.rampup, " ");
  return cat("--global-batch-size ", global);
}

bool check_sizes(const BatchOptions& batch, std::int64_t data_parallel, const std::string& ranks_text,
                 std::int64_t seq_length, const ReportProblem& report) {
  const std::int64_t micro = batch.micro_batch_size, global = batch.global_size(data_parallel);
  const std::string product = cat("--micro-batch-size ", micro, " x data-parallel size ", data_parallel, ranks_text);
  const std::int64_t pass = micro * data_parallel;  // samples in one micro-batch on all ranks
  if (global % pass != 0 && !batch.varies() && !batch.decrease_if_needed) {
    const std::int64_t below = global / pass * pass;
    report(cat("--global-batch-size ", global),
           cat("is not a multiple of ", product, "; use ", below == 0 ? "" : cat(below, " or "), below + pass));
    return false;
  }
  try {
    const BatchSizes sizes = batch.sizes(data_parallel, seq_length);
    if (sizes.largest() / pass > kMaxMicroBatches) {
      report(size_flag(batch, global), cat("needs more than ", kMaxMicroBatches, " micro-batches of ", product,
                                           ", the limit for a step; choose a smaller size, or a larger "
                                           "--micro-batch-size"));
      return false;
    }
    if (!batch.schedule.empty() && global != sizes.largest() && !batch.decrease_if_needed) {
      report(cat("--global-batch-size ", global), cat("differs from the largest size of --step-batch-size-schedule, ",
                                                      sizes.largest(), "; leave the flag out"));
      return false;
    }
  } catch (const Error& error) {
    report(size_flag(batch, global), error.what());
    return false;
  }
  return true;
}

}  // namespace

std::int64_t BatchOptions::global_size(std::int64_t data_parallel) const {
  std::int64_t pass = 0;
  if (global_batch_size) return *global_batch_size;
  return __builtin_mul_overflow(micro_batch_size, data_parallel, &pass) ? INT64_MAX : pass;
}

BatchSizes BatchOptions::sizes(std::int64_t data_parallel, std::int64_t seq_length) const {
  BatchSizeOptions options{.global_batch_size = global_size(data_parallel),
                           .micro_batch_size = micro_batch_size,
                           .data_parallel_size = data_parallel};
  if (!rampup.empty()) {
    options.rampup.emplace();
    for (const std::string& word : rampup) {
      const auto number = parse_int(word);
      if (!number) fail(Exit::usage, "'", word, "' is not a whole number");
      options.rampup->push_back(*number);
    }
  }
  options.schedule = schedule;
  if (seq_length > 0) options.seq_length = seq_length;
  options.decrease_if_needed = decrease_if_needed;
  return BatchSizes(options);
}

RunLength BatchOptions::run_length(std::int64_t iterations, std::int64_t data_parallel) const {
  return {.train_iters = iterations,
          .global_batch_size = global_size(data_parallel),
          .eval_interval = eval_interval,
          .eval_iters = eval_iters,
          .train_samples = train_samples};
}

void check_data_options(const DataOptions& data, const ReportProblem& report) {
  if (data.seq_length == 0) report("--seq-length", "is required: the number of tokens per sample, at least 1");
  if (data.order == "feistel" && data.dataloader_type == "cyclic")
    report("--dataloader-type cyclic", "shuffles what --data-order feistel has shuffled; use only one of them");
  if (!data.data_sharding && data.dataloader_type != "cyclic")
    report("--no-data-sharding", "needs --dataloader-type cyclic, because in a single pass no rank owns samples");
}

bool check_batches(const BatchOptions& batch, std::int64_t data_parallel, const std::string& ranks_text,
                   std::int64_t seq_length, const ReportProblem& report) {
  const bool has_sizes = check_sizes(batch, data_parallel, ranks_text, seq_length, report);
  if (has_sizes && batch.varies() && !batch.train_samples)
    report(batch.rampup.empty() ? "--step-batch-size-schedule" : "--rampup-batch-size",
           "needs a run that is counted in samples; use --train-samples");
  if (batch.train_iters && batch.train_samples)
    report("--train-samples", "excludes --train-iters; use only one of them");
  if (batch.train_samples && has_sizes) {
    const BatchSizes sizes = batch.sizes(data_parallel, seq_length);
    if (sizes.count_iterations(*batch.train_samples) < 1)
      report(cat("--train-samples ", *batch.train_samples),
             cat("is less than one global batch; use at least ", sizes.running(0)));
  } else if (batch.train_iters && has_sizes && *batch.train_iters > INT64_MAX / batch.global_size(data_parallel)) {
    report(cat("--train-iters ", *batch.train_iters),
           cat("needs more samples than 64 bits can count, ", batch.global_size(data_parallel),
               " per iteration; use fewer iterations"));
  }
  return has_sizes;
}

namespace {

void check_profile(const ProfileOptions& profile, std::int64_t world, const ReportProblem& report) {
  if (profile.step_end <= profile.step_start)
    report(cat("--profile-step-end ", profile.step_end),
           cat("is not after --profile-step-start ", profile.step_start,
               ", so no iteration would be recorded; choose a later iteration"));
  for (const std::string& rank : profile.ranks) {
    const std::optional<std::int64_t> number = parse_int(rank);
    if (!number || *number < 0 || *number >= world)
      report("--profile-ranks " + rank,
             cat("is not a rank of this run, ",
                 world == 1 ? "whose only rank is 0" : cat("whose ranks are 0 to ", world - 1)));
  }
}

/// Reports iterations to skip that are no numbers, and weights whose norm cannot be logged.
void check_checks(const TrainOptions& options, const ReportProblem& report) {
  for (const std::string& iteration : options.checks.iterations_to_skip)
    if (parse_int(iteration).value_or(0) < 1)
      report("--iterations-to-skip " + iteration, "is not the number of an iteration, from 1; leave it out");
  const bool has_main_weights = precision_of(options.precision).has_main_params();
  const ParallelOptions& parallel = options.parallel;
  const bool offloads =
      (parallel.optimizer_cpu_offload && options.device == Device::cuda) || !parallel.offload_optimizer.empty();
  if (options.logging.params_norm && has_main_weights && offloads)
    report("--log-params-norm",
           cat("is not supported with ",
               parallel.offload_optimizer.empty() ? "--optimizer-cpu-offload" : "--offload-optimizer",
               " in 16 bits, because the main weights are not on the device; leave it out"));
}

void check_data_and_profile(const TrainOptions& options, const ReportProblem& report) {
  check_data_options(options.data, report);
  const CheckpointOptions& checkpoint = options.checkpoint;
  if (checkpoint.keep_last == 1)
    report(cat("--keep-last ", checkpoint.keep_last), "must be at least 2, or 0 to keep all");
  const std::int64_t interval = checkpoint.save_interval.value_or(0), retained = checkpoint.retain_interval.value_or(0);
  if (interval > 0 && retained % interval != 0)
    report(cat("--save-retain-interval ", retained),
           cat("is not a multiple of --save-interval ", interval, "; use ", (retained / interval + 1) * interval));
  if (options.profile.enabled) check_profile(options.profile, options.parallel.world, report);
}

/// Reports sequences that cannot be divided among context-parallel ranks, into two chunks each, or whose rows cannot be
/// divided among tensor-parallel ranks.
void check_sequence_parts(const ParallelOptions& parallel, std::int64_t length, const ReportProblem& report) {
  const std::int64_t chunks = parallel.context > 1 ? 2 * parallel.context : 1;
  const std::int64_t rows = parallel.sequence_parallel ? parallel.tensor : 1;
  if (length % chunks != 0) {
    const std::int64_t step = std::lcm(chunks, parallel.context * rows);
    report(cat("--context-parallel-size ", parallel.context),
           cat("cannot divide --seq-length ", length, " into ", chunks,
               " equal chunks, two for each rank; choose a --seq-length that is a multiple of ", step));
  } else if (length / parallel.context % rows != 0) {
    report("--sequence-parallel",
           cat("cannot divide --seq-length ", length, " evenly into ", parallel.context * rows,
               " parts; choose a --seq-length that is a multiple of ", std::lcm(chunks, parallel.context * rows)));
  }
}

void check_parallel(const TrainOptions& options, const ReportProblem& report) {
  const ParallelOptions& parallel = options.parallel;
  if (parallel.expert != 1) {
    report(cat("--expert-model-parallel-size ", parallel.expert),
           "is not supported in this version, whose model has no experts; use 1");
  }
  std::int64_t model = parallel.tensor * parallel.pipeline * parallel.context;
  if (parallel.world % model != 0) {
    report(cat("--tensor-model-parallel-size ", parallel.tensor, " x --pipeline-model-parallel-size ",
               parallel.pipeline, parallel.context > 1 ? cat(" x --context-parallel-size ", parallel.context) : ""),
           cat("need a multiple of ", model, " ranks, but there ", parallel.world == 1 ? "is " : "are ", parallel.world,
               options.dry_run && parallel.plan_world ? "; use --world-size " : "; start the run with mpirun -n ",
               (parallel.world / model + 1) * model));
  }
  check_sequence_parts(parallel, options.data.seq_length, report);
}

/// Reports a run whose byte or token counts exceed 64 bits. Every size that we compute from these options is less than
/// one of the products below. The factor 128 allows for several copies of elements with several bytes.
void check_magnitude(const TrainOptions& options, const GptConfig& config, const ReportProblem& report) {
  const std::int64_t micro = options.batch.micro_batch_size, tokens = options.data.seq_length;
  const std::int64_t widest = std::max({config.hidden_size, config.ffn_hidden_size, config.vocab_size});
  const std::int64_t layers = config.num_layers * options.parallel.pipeline;
  const auto check = [&](const char* flags, std::initializer_list<std::int64_t> factors) {
    if (!checked_product(factors)) report(flags, "multiply to more than 64 bits can count; choose smaller sizes");
  };
  check("--num-layers, --hidden-size, --ffn-hidden-size", {layers, config.hidden_size, widest, 128});
  check("--max-position-embeddings, --hidden-size", {config.max_positions, config.hidden_size, 128});
  check("--make-vocab-size-divisible-by, --hidden-size",
        {options.architecture.make_vocab_size_divisible_by, options.parallel.tensor, config.hidden_size, 128});
  check("--micro-batch-size, --seq-length, --num-layers", {layers, micro, tokens, widest, 128});
  check("--micro-batch-size, --seq-length, --num-attention-heads", {micro, config.num_heads, tokens, tokens, 128});
  check("--global-batch-size, --seq-length", {options.batch.global_size(options.parallel.data()), tokens, 128});
  const std::int64_t iterations = options.batch.train_iters.value_or(0), global = options.global_batch_size();
  if (checked_product({iterations, global}))  // else check_batches() reports it
    check("--train-iters, --global-batch-size, --seq-length", {iterations, global, tokens});
  check("--train-samples, --seq-length", {options.batch.train_samples.value_or(0), tokens});
}

/// Reports a chunk with fewer layers than the offloaded and the resident layers together.
void check_offloaded_layers(const ParallelOptions& options, const std::vector<std::int64_t>& counts,
                            const ReportProblem& report) {
  const std::int64_t fewest = *std::min_element(counts.begin(), counts.end());
  const std::int64_t offloaded = options.offloaded_layers.value_or(1);
  if (fewest - kResidentLayers >= offloaded) return;
  report(options.offloaded_layers ? cat("--cpu-offloading-num-layers ", offloaded) : "--cpu-offloading",
         cat("needs at least ", offloaded + kResidentLayers, " layers in each stage, because the activations of ",
             kResidentLayers, " layers stay on the GPU, but one stage has ", fewest,
             offloaded > 1 ? "; offload fewer layers, or use fewer stages" : "; use fewer stages"));
}

/// Reports a schedule that cannot run every size of step.
void check_steps(const TrainOptions& options, std::int64_t num_layers, const ReportProblem& report) {
  const std::int64_t pass = options.batch.micro_batch_size * options.parallel.data();
  bool is_refused = false;
  const ReportProblem report_first = [&](const std::string& flag, const std::string& what) {
    if (!std::exchange(is_refused, true)) report(flag, what);
  };
  try {
    const BatchSizes sizes = options.batch_sizes();
    for (std::int64_t size : sizes.sizes())
      check_step(options.parallel, num_layers, size / pass, size_flag(options.batch, options.global_batch_size()),
                 report_first);
  } catch (const Error&) {  // check_batches() reports it
  }
}

}  // namespace

void check_division(const TrainOptions& options, const GptConfig& config, bool is_loaded, const ReportProblem& report) {
  const ParallelOptions& parallel = options.parallel;
  auto divides = [&](const char* flag, std::int64_t number) {
    if (parallel.tensor >= 1 && number % parallel.tensor != 0)
      report(cat(flag, " ", number), cat("is not a multiple of --tensor-model-parallel-size ", parallel.tensor,
                                         is_loaded ? "; choose a size that divides it" : "; change one of them"));
  };
  divides("--num-attention-heads", config.num_heads);
  if (config.num_query_groups != config.num_heads) divides("--num-query-groups", config.num_query_groups);
  divides("--ffn-hidden-size", config.ffn_hidden_size);
  if (parallel.pipeline < 1 || config.num_layers < 1) return;
  if (!check_schedule_kind(parallel, config.num_layers, "--pipeline-schedule", report)) return;
  if (!check_stages(parallel, config.num_layers, is_loaded, report)) return;
  if (parallel.cpu_offloading && options.device != Device::cpu) {
    if (defers_weights(parallel.schedule_kind(config.num_layers)))
      report(cat("--pipeline-schedule ", *parallel.schedule),
             "cannot be combined with --cpu-offloading, which frees activations before weight gradients are computed; "
             "use only one of them");
    else if (parallel.balances_stages())  // the layers are distributed later
      report("--pipeline-split balanced, --cpu-offloading",
             "cannot be combined, because a stage with the output layer may have too few layers to offload; give the "
             "layers of --dry-run with --pipeline-model-parallel-layout");
    else
      check_offloaded_layers(
          parallel, layer_counts(resolve_stages(parallel, config.num_layers), config.num_layers, is_loaded), report);
  }
  check_steps(options, config.num_layers, report);
}

Recompute recompute_of(const ParallelOptions& options) {
  Recompute out;
  if (options.recompute_granularity == "full" || options.checkpoint_activations || options.checkpoint_method)
    out.granularity = Recompute::Granularity::full;
  else if (options.recompute_granularity == "selective" || options.recompute_activations)
    out.granularity = Recompute::Granularity::selective;
  if (options.recompute_method == "block" || options.checkpoint_method == "block")
    out.method = Recompute::Method::block;
  out.num_layers = options.recompute_num_layers.value_or(1);
  return out;
}

std::string ParallelOptions::data_text() const {
  if (world <= 1) return "";
  return cat(" (", world, " ranks / --tensor-model-parallel-size ", tensor, " / --pipeline-model-parallel-size ",
             pipeline, context > 1 ? cat(" / --context-parallel-size ", context) : "", ")");
}

std::int64_t ParallelOptions::chunks(std::optional<std::int64_t> num_layers) const {
  if (!split.layer_counts.empty()) return (std::ssize(split.layer_counts) + pipeline - 1) / pipeline;
  if (virtual_stages) return *virtual_stages;
  if (layers_per_virtual_stage && num_layers) return *num_layers / (pipeline * *layers_per_virtual_stage);
  return schedule ? std::max(1, traits_of(find_schedule(*schedule)).chunks) : 1;
}

ScheduleKind ParallelOptions::schedule_kind(std::optional<std::int64_t> num_layers) const {
  if (!schedule) return chunks(num_layers) > 1 ? ScheduleKind::interleaved : ScheduleKind::one_forward_one_backward;
  return find_schedule(*schedule);
}

namespace {

/// Returns the grid with these sizes, in the options' order without `absent`.
RankGrid make_grid(const ParallelOptions& options, const GridSizes& sizes, const char* absent) {
  std::vector<std::string> order = split(options.order(), '-');
  std::erase(order, absent);
  RankGrid grid(sizes, join(order, "-"));
  if (grid.world() != options.world)
    fail(Exit::usage, "the parallel sizes multiply to ", grid.world(), " ranks, but the run has ", options.world,
         "; choose sizes whose product divides the number of ranks");
  return grid;
}

}  // namespace

RankGrid rank_grid(const ParallelOptions& options) {
  return make_grid(options,
                   {.tensor = static_cast<int>(options.tensor),
                    .context = static_cast<int>(options.context),
                    .data = static_cast<int>(options.data()),
                    .pipeline = static_cast<int>(options.pipeline)},
                   "ep");
}

Layout resolve_stages(const ParallelOptions& options, std::optional<std::int64_t> num_layers) {
  Layout layout;
  layout.split = options.split;
  layout.sequence_parallel = options.sequence_parallel;
  layout.grid = RankGrid({.pipeline = static_cast<int>(options.pipeline)});
  layout.schedule = options.schedule_kind(num_layers);
  layout.chunks = static_cast<int>(options.chunks(num_layers));
  layout.group = static_cast<int>(options.group.value_or(0));
  const auto exchange = enum_named<ContextExchange>(kContextExchangeNames, options.cp_comm_type);
  require(exchange.has_value(), "--cp-comm-type ", options.cp_comm_type, " is unknown");
  layout.context_exchange = *exchange;
  return layout;
}

Layout resolve_layout(const ParallelOptions& options, std::optional<std::int64_t> num_layers, int rank) {
  Layout layout = resolve_stages(options, num_layers);
  layout.grid = rank_grid(options);
  if (options.expert > 1) {
    const std::int64_t model = options.tensor * options.expert * options.pipeline;
    layout.expert_grid = make_grid(options,
                                   {.tensor = static_cast<int>(options.tensor),
                                    .expert = static_cast<int>(options.expert),
                                    .data = static_cast<int>(options.world / model),
                                    .pipeline = static_cast<int>(options.pipeline)},
                                   "cp");
  }
  layout.rank = rank;
  layout.zero = static_cast<int>(options.zero());
  return layout;
}

namespace {

/// Reports options of precision that the update rule does not have.
void check_update_rule(const TrainOptions& options, const ReportProblem& report) {
  const std::string& name = options.optimizer.name;
  if (name == "muon" && precision_of(options.precision).compute == DType::f16)
    report("--optimizer muon", "is not supported with --fp16, as in Megatron-LM; use --bf16");
  if (name == "sgd" && options.precision.exp_avg_sq)
    report("--exp-avg-sq-dtype", "contradicts --optimizer sgd, which keeps no second moments; leave it out");
}

}  // namespace

void check_options(const TrainOptions& options, const ReportProblem& report) {
  check_parallel(options, report);
  bool has_sizes = check_batches(options.batch, options.parallel.data(), options.parallel.data_text(),
                                 options.data.seq_length, report);
  if (!options.batch.train_iters && !options.batch.train_samples && !options.dry_run)
    report("--train-iters", "is required without --train-samples");
  check_data_and_profile(options, report);
  check_checks(options, report);
  check_update_rule(options, report);
  if (!options.optimizer.schedule.lr && options.dry_run) return;
  if (!options.optimizer.schedule.lr && !options.batch.train_iters && !options.batch.train_samples)
    report("--lr", "is required: the peak learning rate");
  const bool has_one_length = !(options.batch.train_iters && options.batch.train_samples);
  if (has_sizes && has_one_length && options.train_iters() >= 1) {
    check_schedule(options.optimizer.schedule,
                   {.train_iters = options.batch.train_iters,
                    .train_samples = options.batch.train_samples,
                    .global_batch_size = options.global_batch_size()},
                   report);
  }
}

namespace {

/// Reports samples that are longer than the model's positions.
void check_length(const TrainOptions& options, const GptConfig& config, bool is_loaded, const ReportProblem& report) {
  const std::int64_t length = options.data.seq_length;
  // Checkpoints record the positions of a run. A scaling may reach further, but only dynamic needs its base length.
  const bool is_dynamic = config.rotary.scaling == RotaryOptions::Scaling::dynamic;
  const std::int64_t longest = is_dynamic ? config.longest_sequence() : config.max_positions;
  if (longest <= 0 || length <= longest) return;
  const std::string what = cat("is longer than the ", longest, " positions of the model");
  const ArchitectureOptions& model = options.architecture;
  if (!model.preset_flags.contains("--seq-length")) {
    const bool can_extend = is_loaded && config.is_rotary();
    report(cat("--seq-length ", length),
           cat(what, can_extend  ? cat("; add --max-position-embeddings ", length, " to extend them")
                     : is_loaded ? cat("; use at most ", longest)
                                 : cat("; use at most ", longest, ", or raise --max-position-embeddings")));
  } else if (!is_loaded || !model.preset_flags.contains("--max-position-embeddings")) {  // else a difference
    report(cat("--model ", *model.preset),
           cat("sets --seq-length ", length, ", which ", what, "; add --seq-length with at most ", longest));
  }
}

}  // namespace

GptConfig resolve_config(const TrainOptions& options, std::optional<GptConfig> loaded, std::int64_t vocab_size,
                         const ReportProblem& report_problem) {
  bool is_complete = true;
  const ReportProblem report = [&](const std::string& flag, const std::string& what) {
    is_complete = false;
    report_problem(flag, what);
  };
  GptConfig config = resolve_architecture(options.architecture, loaded, options.data.seq_length, report);
  // A tokenizer may have tokens that a loaded model lacks. It is an error only if the data contain them.
  const bool adds_tokens = loaded && options.new_token_rows && vocab_size > config.vocab_size;
  if (!loaded || adds_tokens) config.vocab_size = vocab_size;
  config.complete();
  check_length(options, config, loaded.has_value(), report);
  check_magnitude(options, config, report);
  check_division(options, config, loaded.has_value(), report);
  if (is_complete) {
    for (const std::string& problem : config.problems()) report("model", problem);
  }
  return config;
}

}  // namespace mtl
