#include "train/trainer.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "comm/agreement.h"
#include "comm/rank_outcome.h"
#include "kernels/attention_variant.h"

namespace mtl {

Trainer::Trainer(const TrainOptions& options, RunStart start, const Tokenizer* tokenizer, RankGroups ranks,
                 SignalRequests& signals, Console& console)
    : signals_(signals),
      stop_request_(ranks.rank == 0 ? StopRequest(options.checkpoint.kill_switch_path, options.checkpoint.exit_minutes,
                                                  options.began)
                                    : StopRequest()),
      options_(options),
      console_(console),
      tokenizer_(tokenizer),
      ranks_(std::move(ranks)),
      run_(options, start.state),
      saver_(std::move(start.save), options, run_),
      command_(options.checkpoint.after_save, console),
      data_(options, tokenizer == nullptr ? TrainingData::Tokens{start.config.vocab_size}
                                          : TrainingData::Tokens{.vocab_size = start.config.vocab_size,
                                                                 .eod = tokenizer->eod(),
                                                                 .pad = tokenizer->pad()}),
      steps_(options, start.config, ranks_.rank, ranks_.groups),
      choices_(steps_, ranks_.groups.world(), console),
      train_batches_(make_step_batches(steps_.shape())),
      validation_(options, data_, steps_, run_, console),
      profiler_(options.profile, ranks_.groups.world(), ranks_.hosts, console) {
  check_agreement(start);
  validation_.check_samples();
  if (start.source) {
    resume_from(start);
  } else {
    if (options.skip_train && is_rank_zero())
      console_.warn("no model is loaded: --skip-train evaluates random weights");
    steps_.params().initialize(static_cast<std::uint64_t>(options.seed));
  }
  if (!saver_.check_best(ranks_.groups.world()) && options.checkpoint.keep_best)
    console_.info(cat("the best checkpoint so far is not in ", options.checkpoint.save,
                      ": the next validation counts as the best"));
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

Exit Trainer::run_to_end() {
  const std::int64_t last = run_.iterations;
  if (run_.is_complete() && !options_.skip_train) {
    if (saver_.has_directory() && is_rank_zero()) saver_.finish_commit();
    console_.info(run_.state.iteration > last
                      ? cat("already complete: ", run_.state.iteration, " iterations are done, more than the ", last,
                            " requested")
                      : cat("already complete: ", run_.state.iteration, " of ", last, " iterations are done"));
    return Exit::ok;
  }
  prepare();
  signals_.begin_iteration(run_.state.iteration + (run_.validation_is_due ? 0 : 1));
  signals_.begin_run(!console_.quiet, saver_.has_directory());
  if (options_.skip_train) return finish();
  if (run_.state.iteration < last) report_->print_begin();
  while (run_.state.iteration < last || run_.validation_is_due) {
    if (!run_.validation_is_due) {
      profiler_.begin_step(steps_.stream(), run_.state.iteration + std::ssize(steps_.queue()));
      const StepBatch& batch = next_batch();
      if (run_.is_left_out(run_.state.iteration + std::ssize(steps_.queue()) + 1))
        leave_out(batch);
      else
        enqueue_step(batch);
      const bool is_drained = read_reports();
      profiler_.end_step(steps_.stream(), run_.state.iteration + std::ssize(steps_.queue()));
      if (!is_drained) continue;
      if (is_due(options_.checks.replica_interval, run_.state.iteration)) compare_replicas();
      // Before the validation, because a signal may end the run there, and a resumed run cannot report this interval.
      if (run_.state.iteration == last && run_.interval.steps > 0)
        report_->report_interval(train_feed_->stalled_seconds(), true);
    }
    if (run_.is_validation_iteration() && !validate(false)) return end_early();
    if (run_.state.iteration < last && !save_if_due()) return end_early();
  }
  return finish();
}

/// Opens the report, and starts reading data at the current sample.
void Trainer::prepare() {
  const RunShape& shape = steps_.shape();
  if (!saver_.has_directory() && !options_.skip_train && is_rank_zero())
    console_.warn("without --save the trained model is not kept");
  if (saver_.has_directory() && options_.checkpoint.needs_no_load_optim() && is_rank_zero())
    console_.warn("--no-save-optim: a resume will need --no-load-optim, and start with moments of zero");
  if (shape.device == Device::cuda && is_rank_zero()) {
    console_.info(steps_.graphs_text());
    const bool drops_in_parts = !shape.part().is_whole() && options_.dropout().attention > 0;
    const std::string warning = scalar_attention_warning(shape.precision.compute, steps_.config().head_dim,
                                                         drops_in_parts ? shape.rows_per_sequence() / 2 : 0);
    if (!warning.empty() && steps_.stream().attention_backend() != AttentionBackend::unfused) console_.warn(warning);
  }
  read_failed_step();
  report_.emplace(options_, steps_, run_, console_, is_rank_zero() ? saver_.run_id() : "", data_.identity());
  profiler_.prepare(shape.device, shape.threads, options_.tf32, report_->peak_tflops());
  if (options_.takes_digests()) state_digest_ = steps_.state_digest();
  run_.interval.began = now_seconds();
  if (run_.state.iteration == run_.iterations || options_.skip_train) return;  // only validations remain
  train_feed_ = open_feed(data_.dataset(Split::train), Split::train, run_.state.consumed_samples, options_, shape,
                          train_batches_);
}

/// Answers requests to save and for a status line, which ends in `where`. Returns true if the state must be saved.
bool Trainer::answer(const StepTotals& requested, const std::string& where) {
  if (requested.status > 0) report_->print_status(where);
  if (requested.save > 0 && !saver_.has_directory() && is_rank_zero())
    console_.warn("USR1 requests a save, but nothing is saved without --save");
  return requested.save > 0;
}

/// Collective: saves the state unless it has already been saved. With --async-save, only begins to if the run
/// `goes_on`; otherwise, no save is pending afterwards. A checkpoint that does not persist is replaced by the next one.
void Trainer::save(bool goes_on, bool persists) {
  const bool is_behind = saver_.is_behind(), keeps = !is_behind && persists && !saver_.newest_persists();
  if (is_behind || keeps || !goes_on) commit_save();
  if (keeps) saver_.keep(ranks_.groups.world());
  if (!is_behind) return;
  save_began_ = now_seconds();
  report_->metrics().flush();
  check_state();  // throws if a rank has failed since the last step; the save would wait for it forever
  if (options_.checks.replica_interval.value_or(0) > 0) compare_replicas();
  if (run_.state.iteration == command_iteration_) await_command();  // the save replaces the checkpoint that it reads
  const bool copies = goes_on && options_.checkpoint.saves_behind_steps();
  saver_.begin(copies, persists, steps_, choices_, data_.identity(), tokenizer_, ranks_.groups.world());
  save_waited_ = copies ? now_seconds() - save_began_ : 0;
  if (!copies) return finish_save(save_began_);
  run_.interval.began += save_waited_;
  console_.info(cat("saving iteration ", run_.state.iteration, " behind the next iterations; they waited ",
                    human_seconds(save_waited_), " for the copy"));
}

/// Collective: waits for the pending save, if any, and commits it.
void Trainer::commit_save() {
  if (!saver_.is_pending()) return;
  const double began = now_seconds();
  StepTotals totals;
  exchange(totals);  // as in save()
  finish_save(began);
}

/// Collective: commits the save, for which the steps have waited since `began`.
void Trainer::finish_save(double began) {
  const std::int64_t iteration = saver_.newest_iteration();
  const std::string path = saver_.finish(ranks_.groups.world());
  const double now = now_seconds();
  const std::string waited =
      save_waited_ > 0 ? cat(", of which iterations waited ", human_seconds(save_waited_ + now - began)) : "";
  console_.info(cat("saved ", path, " in ", human_seconds(now - save_began_), waited));
  if (iteration < run_.iterations && saver_.newest_persists()) run_command(path, iteration);
  run_.interval.began += now_seconds() - began;
}

/// Collective: starts the command for a checkpoint, once the one before has ended.
void Trainer::run_command(const std::string& checkpoint, std::int64_t iteration) {
  await_command();
  command_iteration_ = iteration;
  if (is_rank_zero() && patience_ > 0) command_.start(checkpoint, iteration);
}

/// Collective: waits for the command, without end unless the run has to end. Rank 0 tells the others every second that
/// it waits, because they would give up in time.
void Trainer::await_command() {
  if (options_.checkpoint.after_save.empty()) return;
  const auto wait_a_second = [&]() -> std::string {
    if (command_.wait(1)) return "ended";
    if ((has_failed_ || totals_.end > 0 || signals_.end_requested()) && --patience_ <= 0) command_.end();
    return "";
  };
  while (work_on_first_rank(ranks_.groups.world(), wait_a_second).empty()) {
  }
}

/// Collective: at the end, runs the command for the last checkpoint, which the end of the run has changed.
void Trainer::end_commands() {
  signals_.end_run();
  if (saver_.has_directory() && run_.state.iteration == run_.iterations)
    run_command(saver_.checkpoint(), run_.state.iteration);
  await_command();
}

/// Saves between two steps if an interval or a signal says so. Returns false if the run ends here.
bool Trainer::save_if_due() {
  const CheckpointOptions& checkpoint = options_.checkpoint;
  const auto divides = [&](const auto& interval) { return is_due(interval, run_.state.iteration); };
  command_.wait(0);  // warns soon if it has failed
  const bool requested = answer(totals_, "");
  totals_.status = totals_.save = 0;
  const bool ends = totals_.ends() || divides(checkpoint.exit_interval);
  const bool persists = requested || ends || divides(checkpoint.save_interval) || run_.is_best();
  if (persists || checkpoint.is_save_due(run_.state.iteration)) save(!ends, persists);
  return !ends;
}

/// Collective: handles requests before a validation or test batch. Returns false if the run ends.
bool Trainer::answer_requests(const std::string& where) {
  StepTotals requested;
  requested.take(signals_, stop_request_);
  exchange(requested);
  totals_.end = std::max(totals_.end, requested.end);
  totals_.stop = std::max(totals_.stop, requested.stop);
  if (answer(requested, where) || totals_.ends()) {
    steps_.traffic().finish_gathering();
    save(!totals_.ends());
  }
  return !totals_.ends();
}

/// Validates, at the end (`final`) also tests. Returns false if the run ends in between; the state before is then
/// saved.
bool Trainer::validate(bool final) {
  signals_.begin_iteration(run_.state.iteration);
  const bool goes_on =
      validation_.run(final, report_->metrics(),
                      {.answer_requests = [this](const std::string& where) { return answer_requests(where); },
                       .sum = [this](StepTotals& totals) { exchange(totals); }});
  expect_next_iteration();
  return goes_on;
}

/// Save before validating, so that a fault during validation does not lose the model. The checkpoint has the counts
/// from before the last validation, so that an extended run equals an uninterrupted one.
Exit Trainer::finish() {
  steps_.traffic().finish_gathering();
  save(false);  // so USR1 has nothing to save from here on
  const TrainState before = run_.state;
  if (!validate(true)) return end_early();
  if (steps_.has_stepped()) steps_.check_buffers();
  if (saver_.has_directory()) {
    run_.state = before;
    saver_.mark_finished(ranks_.groups.world());
  }
  profiler_.finish(steps_.stream());
  report_->metrics().finish();
  end_commands();
  return Exit::ok;
}

/// Ends a run that is not complete. Its state has already been saved if there is a --save folder.
Exit Trainer::end_early() {
  steps_.traffic().finish_gathering();
  const bool by_signal = totals_.end > 0;
  if (by_signal && !saver_.has_directory()) {
    throw AgreedError(Exit::failure, cat("ended by a signal at iteration ", run_.state.iteration,
                                         "; without --save nothing was kept"));
  }
  profiler_.finish(steps_.stream());
  report_->metrics().finish(by_signal ? Exit::requeue : Exit::ok);
  std::string cause = stop_request_.reason();  // on rank 0, which prints it
  if (cause.empty()) cause = "--exit-interval";
  if (by_signal) cause = "ended by a signal";
  console_.info(cat(cause, " after iteration ", run_.state.iteration,
                    !saver_.has_directory()                     ? "; without --save nothing was kept"
                    : options_.checkpoint.needs_no_load_optim() ? "; the same command with --no-load-optim continues"
                                                                : "; the same command continues from here"));
  end_commands();
  return by_signal ? Exit::requeue : Exit::ok;
}

/// Enqueues one optimizer step. Its report is read later.
void Trainer::enqueue_step(const StepBatch& batch) {
  EnqueuedStep step = run_.next_step(batch, steps_.queue());
  if (steps_.shape().per_token_loss) step.inputs.token_share = token_share(batch);
  signals_.begin_iteration(step.iteration);
  steps_.begin(step);
  choices_.agree(batch);
  if (options_.takes_digests()) compute_step(step);
  steps_.enqueue(step);
}

/// Returns the share of a step's tokens, over all ranks, that the loss mask leaves. Collective.
double Trainer::token_share(const StepBatch& batch) {
  StepTotals counted;
  if (steps_.counts_tokens()) counted.add_tokens(batch);
  exchange(counted);
  const RunShape& shape = steps_.shape();
  const auto samples = shape.micro_batch * batch.micro_batches * shape.layout.size(Axis::data);
  return std::max(counted.tokens, 1.0) / double(samples * shape.seq_length);
}

void Trainer::exchange(StepTotals& totals) {
  totals.unsavable = can_save() ? 0 : 1;
  totals.writing = saver_.is_writing() ? 1 : 0;
  totals.exchange(ranks_.groups.world());
  if (totals.failed > 0) throw RankFailed(totals.unsavable == 0);
}

}  // namespace mtl
