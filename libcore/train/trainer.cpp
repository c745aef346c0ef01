#include "train/trainer.h"

#include <utility>

#include "base/hash.h"
#include "ckpt/checkpoint_folder.h"
#include "comm/agreement.h"
#include "comm/rank_outcome.h"
#include "kernels/attention_variant.h"
#include "kernels/elementwise.h"
#include "train/flops.h"
#include "train/rank_failed.h"

namespace mtl {

namespace {

Optimizer::Options optimizer_options(const TrainOptions& options) {
  const OptimizerOptions& given = options.optimizer;
  return {.rule = {{.beta1 = given.adam_beta1, .beta2 = given.adam_beta2, .eps = given.adam_eps}},
          .clip_grad = given.clip_grad,
          .overlap = run_overlap(options),
          .seed = static_cast<std::uint32_t>(options.seed)};
}

StopRequest stop_request_of(const TrainOptions& options) {
  return {options.checkpoint.kill_switch_path, options.checkpoint.exit_minutes, options.began};
}

/// Describes whether steps run as CUDA graphs, which parts do not, and why.
std::string graphs_text(const RunShape& shape, const CapturePolicy& policy) {
  if (!shape.graphs && shape.layout.shards_gradients())
    return "steps run without CUDA graphs, because sums of sharded gradients outlast a micro-batch";
  if (!shape.graphs && !shape.layout.optimizer_folder.empty())
    return "steps run without CUDA graphs, because the update waits for the files of --offload-optimizer";
  if (!shape.graphs && shape.layout.has_ring())
    return "steps run without CUDA graphs, because they cannot contain the messages of --cp-comm-type p2p";
  if (!shape.graphs) return "steps run without CUDA graphs, as --no-cuda-graphs requests";
  std::vector<std::string> plain;
  if (shape.layout.stages() > 1) plain.push_back("messages between stages");
  if (!policy.captures_micro_batch(true, false)) plain.push_back("the first micro-batch (--overlap-param-gather)");
  if (!policy.captures_micro_batch(false, true))
    plain.push_back("the last micro-batch (--overlap-grad-reduce in a pipeline)");
  if (!policy.captures_update()) plain.push_back("the update");
  std::string text = "steps run as CUDA graphs from the third on";
  if (plain.empty()) return text;
  return text + "; not as graphs: " + join(plain, ", ") +
         ", because a graph cannot wait for communication that began outside of it";
}

}  // namespace

Trainer::Trainer(const TrainOptions& options, RunStart start, const Tokenizer* tokenizer, RankGroups ranks,
                 SignalRequests& signals, Console& console)
    : signals_(signals),
      stop_request_(ranks.rank == 0 ? stop_request_of(options) : StopRequest()),
      options_(options),
      console_(console),
      tokenizer_(tokenizer),
      ranks_(std::move(ranks)),
      config_(start.config),
      run_(options, start.state),
      save_directory_(std::move(start.save)),
      data_(options, tokenizer == nullptr ? TrainingData::Tokens{config_.vocab_size}
                                          : TrainingData::Tokens{.vocab_size = config_.vocab_size,
                                                                 .eod = tokenizer->eod(),
                                                                 .pad = tokenizer->pad()}),
      shape_(run_shape(options, config_, ranks_.rank)),
      stage_(make_stage(config_, run_dropout(options), shape_.layout, shape_.padded_vocab, shape_.precision.residual)),
      params_(
          shape_.device, shape_.precision, AdamW::states(shape_.precision),
          [&](const ParamVisitor& visit) { stage_.params(visit); }, shape_.layout),
      plan_(plan_run(options, config_, ranks_.rank)),
      stream_(shape_.device, shape_.threads),
      step_memory_(shape_.device),
      step_queue_(shape_.device == Device::cuda ? 1 : 0),
      optimizer_(params_, optimizer_options(options), stream_, ranks_.groups),
      capture_policy_(optimizer_.traffic(), ranks_.groups),
      pipeline_(stage_, stream_, ranks_.groups, rank_schedule(shape_.layout, static_cast<int>(shape_.micro_batches)),
                plan_, &optimizer_.traffic(), step_memory_.on_device()),
      graphs_(ranks_.groups),
      train_batches_(make_step_batches(shape_)),
      profiler_(options.profile, ranks_.groups.world(), ranks_.hosts, console) {
  if (options.batch.eval_iters > 0) held_out_batches_ = make_step_batches(shape_);
  for (std::int64_t size : run_.batch_sizes.sizes()) {
    auto micro_batches = static_cast<int>(size / (options.batch.micro_batch_size * options.parallel.data()));
    const auto largest = static_cast<int>(shape_.micro_batches);
    step_schedules_.emplace(micro_batches, rank_schedule(shape_.layout, micro_batches, largest));
  }
  if (shape_.graphs) pipeline_.use_graphs(graphs_, capture_policy_, optimizer_.traffic(), shape_);
  check_agreement(start);
  check_validation_samples();
  if (start.source) {
    resume_from(start);
  } else {
    params_.initialize(static_cast<std::uint64_t>(options.seed));
  }
  stream_.set_tf32(options.tf32);
  stream_.set_attention_backend(parse_attention_backend(options.attention_backend));
  load_choices();
}

/// Throws if ranks differ in tokenizer, data or starting state, because they would then train different models.
void Trainer::check_agreement(const RunStart& start) {
  if (ranks_.groups.world().size() == 1) return;
  std::string from = start.source ? start.source->folder() : "nothing";
  if (start.state) from += cat(", iteration ", start.state->iteration);
  if (start.source) from += "\n" + start.source->identity();
  check_same(ranks_.groups.world(), ranks_.hosts,
             {{"tokenizer", tokenizer_ == nullptr ? "none" : hash_text(tokenizer_->hash())},
              {"data", data_.identity_lines()},
              {"start", from}});
}

SamplerOptions Trainer::sampler(Split split, std::int64_t consumed) const {
  return {.kind = options_.data.sampler_kind(),
          .total = data_.dataset(split)->size(),
          .consumed = consumed,
          .micro_batch_size = options_.batch.micro_batch_size,
          .dp_size = shape_.layout.size(Axis::data),
          .dp_rank = shape_.layout.coordinate(Axis::data),
          .data_sharding = options_.data.data_sharding};
}

std::unique_ptr<DataFeed> Trainer::feed(Split split, std::int64_t consumed) {
  if (data_.dataset(split) == nullptr) return nullptr;
  DataFeed::MicroBatches largest = [this](std::int64_t) { return shape_.micro_batches; };
  DataFeed::MicroBatches scheduled = [this](std::int64_t at) { return run_.batch_sizes.micro_batches(at); };
  return std::make_unique<DataFeed>(data_.dataset(split), sampler(split, consumed), shape_,
                                    split == Split::train ? scheduled : largest,
                                    split == Split::train ? train_batches_ : *held_out_batches_);
}

Exit Trainer::run_to_end() {
  const std::int64_t last = run_.iterations;
  if (run_.is_complete()) {
    if (save_directory_ && is_rank_zero())
      save_directory_->finish_commit(run_.state.iteration, options_.checkpoint.keep_last);
    console_.info(run_.state.iteration > last
                      ? cat("already complete: ", run_.state.iteration, " iterations are done, more than the ", last,
                            " requested")
                      : cat("already complete: ", run_.state.iteration, " of ", last, " iterations are done"));
    return Exit::ok;
  }
  prepare();
  signals_.begin_iteration(run_.state.iteration + (run_.validation_is_due ? 0 : 1));
  signals_.begin_run(!console_.quiet, save_directory_ != nullptr);
  if (run_.state.iteration < last) print_begin();
  while (run_.state.iteration < last || run_.validation_is_due) {
    if (!run_.validation_is_due) {
      profiler_.begin_step(stream_, run_.state.iteration + step_queue_.size());
      train_step();
      const bool is_drained = read_reports();
      profiler_.end_step(stream_, run_.state.iteration + step_queue_.size());
      if (!is_drained) continue;
      // Before the validation, because a signal may end the run there, and a resumed run cannot report this interval.
      if (run_.state.iteration == last && run_.interval.steps > 0) report_interval(true);
    }
    if (run_.is_validation_iteration() && !validate(false)) return end_early();
    if (run_.state.iteration < last && !save_if_due()) return end_early();
  }
  return finish();
}

/// Determines the peak rate, opens the report sinks, and starts reading data at the current sample.
void Trainer::prepare() {
  if (!save_directory_ && is_rank_zero()) console_.warn("without --save the trained model is not kept");
  if (shape_.device == Device::cuda && is_rank_zero()) {
    console_.info(graphs_text(shape_, capture_policy_));
    const std::string warning =
        scalar_attention_warning(shape_.precision.compute, config_.head_dim, shape_.layout.size(Axis::context) > 1);
    if (!warning.empty() && stream_.attention_backend() != AttentionBackend::unfused) console_.warn(warning);
  }
  peak_tflops_ = options_.logging.peak_tflops.value_or(0);
  if (peak_tflops_ == 0) peak_tflops_ = measure_peak_tflops(shape_.device, shape_.threads, shape_.precision.compute);
  profiler_.prepare(shape_.device, shape_.threads, options_.tf32, peak_tflops_);
  MetricsOptions sinks;  // empty on all ranks but rank 0
  sinks.terminal = is_rank_zero() && !console_.quiet;
  if (is_rank_zero()) sinks.tensorboard_dir = options_.logging.tensorboard_dir;
  if (is_rank_zero()) sinks.log_jsonl = options_.logging.log_jsonl;
  sinks.from = {.run = is_rank_zero() && save_directory_ ? save_directory_->run_id() : random_id(),
                .iteration = run_.state.iteration,
                .consumed_samples = run_.state.consumed_samples,
                .train_iterations = run_.iterations,
                .validation_is_due = run_.validation_is_due};
  sinks.world_size = options_.parallel.world;
  sinks.start = start_record();
  metrics_.emplace(sinks, console_);
  run_.interval.began = now_seconds();
  if (run_.state.iteration == run_.iterations) return;  // only validations remain
  train_feed_ = feed(Split::train, run_.state.consumed_samples);
}

/// Saves between two steps if an interval or a signal says so. Returns false if the run ends here.
bool Trainer::save_if_due() {
  const CheckpointOptions& checkpoint = options_.checkpoint;
  const auto divides = [&](const auto& interval) { return is_due(interval, run_.state.iteration); };
  if (std::exchange(totals_.status, 0) > 0) print_status("");
  const bool requested = std::exchange(totals_.save, 0) > 0;
  if (requested && !save_directory_ && is_rank_zero()) console_.warn(kNoSaveFolder);
  const bool ends = totals_.ends() || divides(checkpoint.exit_interval);
  if (requested || ends || divides(checkpoint.save_interval)) save();
  return !ends;
}

/// Ends a run that is not complete. Its state has already been saved if there is a --save folder.
Exit Trainer::end_early() {
  optimizer_.traffic().finish_gathering();
  const bool by_signal = totals_.end > 0;
  if (by_signal && !save_directory_) {
    throw AgreedError(Exit::failure, cat("ended by a signal at iteration ", run_.state.iteration,
                                         "; without --save nothing was kept"));
  }
  profiler_.finish(stream_);
  metrics_->finish();
  std::string cause = stop_request_.reason();  // on rank 0, which prints it
  if (cause.empty()) cause = "--exit-interval";
  if (by_signal) cause = "ended by a signal";
  console_.info(cat(cause, " after iteration ", run_.state.iteration,
                    save_directory_ ? "; the same command continues from here" : "; without --save nothing was kept"));
  return by_signal ? Exit::requeue : Exit::ok;
}

/// Enqueues one optimizer step, from the data to the weight update. Its report is read later.
void Trainer::train_step() { enqueue_step(next_batch()); }

void Trainer::enqueue_step(const StepBatch& batch) {
  EnqueuedStep step = run_.next_step(batch, step_queue_);
  progress_.iteration = step.iteration;
  signals_.begin_iteration(step.iteration);
  step_memory_.send(stream_, step.inputs);
  fill_zero(stream_, step_memory_.loss_sum());
  optimizer_.begin_step();
  agree_on_choices(batch);
  graphs_.begin_step(batch.micro_batches);
  compute_gradients(batch);
  update();
  if (counts_tokens()) step.totals.add_tokens(batch);
  step.totals.waited = optimizer_.traffic().take_waited_seconds();
  step_queue_.push(stream_, step_memory_, step);
}

/// After the first step, checks that exactly the planned buffers exist. Later, checks that no buffer has been allocated
/// since.
void Trainer::check_buffers() {
  const BufferUse use = buffer_use();
  if (!buffers_made_) {
    require(use.bytes == plan_.buffer_bytes(), "buffers of ", use.bytes, " bytes exist, ", plan_.buffer_bytes(),
            " are planned");
    buffers_made_ = use.made;
    if (!choices_context_.empty()) gather_choices();
  }
  require(use.made == *buffers_made_, "a buffer was allocated after the first step");
}

/// Runs forward and backward for every micro-batch in the step.
void Trainer::compute_gradients(const StepBatch& batch) {
  pipeline_.train(*batch.buffers, &progress_, &step_schedules_.at(batch.micro_batches),
                  counts_losses() ? step_memory_.loss_sum() : Tensor());
}

/// Computes the gradient norm, clips the gradients, and updates the weights.
void Trainer::update() {
  const ProfileRange range(stream_, ProfileKind::phase, "optimizer");
  const auto step = [this] { optimizer_.step(pipeline_.scratch(), step_memory_.on_device()); };
  if (!shape_.graphs || !capture_policy_.captures_update()) return step();
  optimizer_.begin_update();
  graphs_.run(stream_, {}, step);
}

/// Tensor-parallel ranks on the stage that computes the losses hold equal losses, so only one of them counts its
/// losses.
bool Trainer::counts_losses() const {
  return shape_.layout.stage() == shape_.layout.places().loss_stage() && shape_.layout.coordinate(Axis::tensor) == 0;
}

/// Context-parallel ranks each count the losses of their parts of the samples, but only one counts the samples' tokens.
bool Trainer::counts_tokens() const { return counts_losses() && shape_.layout.coordinate(Axis::context) == 0; }

void Trainer::exchange(StepTotals& totals) {
  totals.unsavable = can_save() ? 0 : 1;
  totals.exchange(ranks_.groups.world());
  if (totals.failed > 0) throw RankFailed(totals.unsavable == 0);
}

}  // namespace mtl
