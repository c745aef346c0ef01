// Validation and testing: computes losses on held-out data, handles requests between batches, and finishes a complete
// run.
#include "base/count_of.h"
#include "base/error.h"
#include "ckpt/checkpoint.h"
#include "train/trainer.h"

namespace mtl {

std::int64_t Trainer::validations_left() const {
  const std::int64_t interval = options_.batch.eval_interval;
  if (data_.dataset(Split::valid) == nullptr || options_.batch.eval_iters == 0) return 0;
  const std::int64_t periodic = interval > 0 ? run_.iterations / interval - run_.state.iteration / interval : 0;
  return periodic + (run_.validation_is_due ? 1 : 0) + 1;
}

/// Before the first step, rejects a run whose validations need more samples than remain. As in Megatron-LM, the current
/// session's flags determine the size of the validation set, but reading continues where the previous session stopped.
void Trainer::check_validation_samples() const {
  const BatchOptions& batch = options_.batch;
  const BlendedDataset* data = data_.dataset(Split::valid).get();
  if (validations_left() == 0 || options_.data.sampler_kind() != SamplerKind::single) return;
  const std::int64_t last = run_.iterations;
  const std::int64_t needed = validations_left() * held_out_samples();
  const std::int64_t available = data->size() - run_.state.consumed_valid_samples;
  if (run_.is_complete() || needed <= available) return;
  const std::string rest = run_.state.iteration < last ? cat("iterations ", run_.state.iteration + 1, " to ", last)
                                                       : cat("the validations after iteration ", last);
  fail(Exit::usage, "--eval-interval ", batch.eval_interval, ", --eval-iters ", batch.eval_iters, ": ", rest, " need ",
       count_of(needed, "validation sample"), ", but only ", with_commas(std::max<std::int64_t>(0, available)),
       " of the set's ", with_commas(data->size()), " (by these flags, as in Megatron-LM) are left, because ",
       with_commas(run_.state.consumed_valid_samples),
       " were consumed; use the --eval-interval and --eval-iters of the first start, or lower --eval-iters");
}

/// Collective: handles requests before a validation or test batch. Returns false if the run ends.
bool Trainer::answer_requests(const char* name, std::int64_t batch) {
  StepTotals requested;
  requested.take(signals_, stop_request_);
  exchange(requested);
  totals_.end = std::max(totals_.end, requested.end);
  totals_.stop = std::max(totals_.stop, requested.stop);
  if (requested.status > 0) print_status(cat(", ", name, " batch ", batch + 1, " of ", options_.batch.eval_iters));
  if (requested.save > 0 && !save_directory_ && is_rank_zero()) console_.warn(kNoSaveFolder);
  if (requested.save > 0 || totals_.ends()) {
    steps_.traffic().finish_gathering();
    save();
  }
  return !totals_.ends();
}

std::optional<double> Trainer::held_out_loss(DataFeed& feed, const char* name) {
  StepTotals totals;
  steps_.begin_evaluation();
  for (std::int64_t batch = 0; batch < options_.batch.eval_iters; ++batch) {
    if (!answer_requests(name, batch)) return std::nullopt;
    if (is_rank_zero())
      console_.status(cat("iteration ", run_.state.iteration, " of ", run_.iterations, " | ", name, " batch ",
                          batch + 1, " of ", options_.batch.eval_iters));
    steps_.evaluate(feed.next(steps_.stream()), totals);
  }
  totals.loss_sum = steps_.loss_sum();
  exchange(totals);
  return totals.loss();
}

/// Validates and, after the last iteration (`final`), also tests. Returns false if a request to end interrupted the
/// validation. In that case, the state before the validation is saved, and a resumed run repeats the entire validation.
bool Trainer::validate(bool final) {
  run_.validation_is_due = !final && options_.batch.eval_iters > 0;
  if (options_.batch.eval_iters == 0) return true;
  double began = now_seconds();
  auto evaluate = [&](DataFeed& feed, const char* name, std::int64_t samples_before) {
    std::optional<double> loss = held_out_loss(feed, name);
    if (loss) report_held_out(name, *loss, final, samples_before);
    return loss.has_value();
  };
  if (!valid_feed_) valid_feed_ = feed(Split::valid, run_.state.consumed_valid_samples);
  if (valid_feed_) {
    if (!evaluate(*valid_feed_, "validation", run_.state.consumed_valid_samples)) return false;
    run_.state.consumed_valid_samples += held_out_samples();
  }
  if (final) {
    valid_feed_.reset();  // the test reuses this feed's memory
    if (auto test_feed = feed(Split::test, 0); test_feed && !evaluate(*test_feed, "test", 0)) return false;
  }
  run_.validation_is_due = false;
  validation_seconds_ = now_seconds() - began;
  run_.interval.began += *validation_seconds_;  // iteration times exclude validation
  return true;
}

/// Save before validating, so that a fault during validation does not lose the model. The checkpoint has the counts
/// from before the last validation, so that an extended run equals an uninterrupted one.
Exit Trainer::finish() {
  steps_.traffic().finish_gathering();
  save();
  const TrainState before = run_.state;
  if (!validate(true)) return end_early();
  if (steps_.has_stepped()) steps_.check_buffers();
  if (save_directory_) {
    run_.state = before;
    run_.state.extra.set("finished", true);
    save_directory_->replace_state(run_.state, options_.checkpoint.keep_last, ranks_.groups.world());
  }
  profiler_.finish(steps_.stream());
  metrics_->finish();
  return Exit::ok;
}

}  // namespace mtl
