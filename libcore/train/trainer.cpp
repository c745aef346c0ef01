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

StopRequest stop_request_of(const TrainOptions& options) {
  return {options.checkpoint.kill_switch_path, options.checkpoint.exit_minutes, options.began};
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
      run_(options, start.state),
      save_directory_(std::move(start.save)),
      data_(options, tokenizer == nullptr ? TrainingData::Tokens{start.config.vocab_size}
                                          : TrainingData::Tokens{.vocab_size = start.config.vocab_size,
                                                                 .eod = tokenizer->eod(),
                                                                 .pad = tokenizer->pad()}),
      steps_(options, start.config, ranks_.rank, ranks_.groups),
      choices_(steps_, ranks_.groups.world(), console),
      train_batches_(make_step_batches(steps_.shape())),
      profiler_(options.profile, ranks_.groups.world(), ranks_.hosts, console) {
  if (options.batch.eval_iters > 0) held_out_batches_ = make_step_batches(steps_.shape());
  check_agreement(start);
  check_validation_samples();
  if (start.source) {
    resume_from(start);
  } else {
    steps_.params().initialize(static_cast<std::uint64_t>(options.seed));
  }
  choices_.load(run_.state.extra, options.tuning_cache);
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
          .dp_size = steps_.shape().layout.size(Axis::data),
          .dp_rank = steps_.shape().layout.coordinate(Axis::data),
          .data_sharding = options_.data.data_sharding};
}

std::unique_ptr<DataFeed> Trainer::feed(Split split, std::int64_t consumed) {
  if (data_.dataset(split) == nullptr) return nullptr;
  DataFeed::MicroBatches largest = [this](std::int64_t) { return steps_.shape().micro_batches; };
  DataFeed::MicroBatches scheduled = [this](std::int64_t at) { return run_.batch_sizes.micro_batches(at); };
  return std::make_unique<DataFeed>(data_.dataset(split), sampler(split, consumed), steps_.shape(),
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
      profiler_.begin_step(steps_.stream(), run_.state.iteration + steps_.queue().size());
      enqueue_step(next_batch());
      const bool is_drained = read_reports();
      profiler_.end_step(steps_.stream(), run_.state.iteration + steps_.queue().size());
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
  if (steps_.shape().device == Device::cuda && is_rank_zero()) {
    console_.info(steps_.graphs_text());
    const std::string warning = scalar_attention_warning(steps_.shape().precision.compute, steps_.config().head_dim,
                                                         steps_.shape().layout.size(Axis::context) > 1);
    if (!warning.empty() && steps_.stream().attention_backend() != AttentionBackend::unfused) console_.warn(warning);
  }
  peak_tflops_ = options_.logging.peak_tflops.value_or(0);
  if (peak_tflops_ == 0)
    peak_tflops_ = measure_peak_tflops(steps_.shape().device, steps_.shape().threads, steps_.shape().precision.compute);
  profiler_.prepare(steps_.shape().device, steps_.shape().threads, options_.tf32, peak_tflops_);
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
  steps_.traffic().finish_gathering();
  const bool by_signal = totals_.end > 0;
  if (by_signal && !save_directory_) {
    throw AgreedError(Exit::failure, cat("ended by a signal at iteration ", run_.state.iteration,
                                         "; without --save nothing was kept"));
  }
  profiler_.finish(steps_.stream());
  metrics_->finish();
  std::string cause = stop_request_.reason();  // on rank 0, which prints it
  if (cause.empty()) cause = "--exit-interval";
  if (by_signal) cause = "ended by a signal";
  console_.info(cat(cause, " after iteration ", run_.state.iteration,
                    save_directory_ ? "; the same command continues from here" : "; without --save nothing was kept"));
  return by_signal ? Exit::requeue : Exit::ok;
}

/// Enqueues one optimizer step. Its report is read later.
void Trainer::enqueue_step(const StepBatch& batch) {
  const EnqueuedStep step = run_.next_step(batch, steps_.queue());
  signals_.begin_iteration(step.iteration);
  steps_.begin(step);
  choices_.agree(batch);
  steps_.enqueue(step);
}

void Trainer::exchange(StepTotals& totals) {
  totals.unsavable = can_save() ? 0 : 1;
  totals.exchange(ranks_.groups.world());
  if (totals.failed > 0) throw RankFailed(totals.unsavable == 0);
}

}  // namespace mtl
