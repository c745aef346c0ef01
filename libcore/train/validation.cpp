#include "train/validation.h"

#include <algorithm>

#include "base/count_of.h"
#include "base/error.h"

namespace mtl {

Validation::Validation(const TrainOptions& options, const TrainingData& data, StepRunner& steps, RunProgress& run,
                       Console& console)
    : options_(options), data_(data), steps_(steps), run_(run), console_(console) {
  if (options.batch.validates()) batches_ = make_step_batches(steps.shape());
}

/// Returns the number of validations to come in this run, with that after the last iteration.
std::int64_t Validation::validations_left() const {
  const std::int64_t interval = options_.batch.eval_interval;
  if (data_.dataset(Split::valid) == nullptr || !options_.batch.validates()) return 0;
  const std::int64_t periodic = interval > 0 ? run_.iterations / interval - run_.state.iteration / interval : 0;
  return periodic + (run_.validation_is_due ? 1 : 0) + 1;
}

void Validation::check_samples() const {
  const BatchOptions& batch = options_.batch;
  const BlendedDataset* data = data_.dataset(Split::valid).get();
  if (is_full() || validations_left() == 0 || options_.data.sampler_kind() != SamplerKind::single) return;
  const std::int64_t last = run_.iterations;
  const std::int64_t needed = validations_left() * samples();
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

double Validation::seconds_left(double seconds) const {
  const double validation = seconds_.value_or(double(validation_batches()) * seconds / 3);
  return double(run_.iterations - run_.state.iteration) * seconds + double(validations_left()) * validation;
}

/// Returns the number of batches in a validation.
std::int64_t Validation::validation_batches() const {
  const BlendedDataset* data = data_.dataset(Split::valid).get();
  if (!is_full() || data == nullptr) return options_.batch.eval_iters;
  return (data->size() - 1) / run_.batch_sizes.largest() + 1;
}

/// Returns the loss on a set, or nothing if the run ends.
std::optional<double> Validation::loss(DataFeed& feed, std::int64_t batches, const std::string& name,
                                       const Exchanges& ranks) {
  StepTotals totals;
  steps_.begin_evaluation();
  for (std::int64_t batch = 1; batch <= batches; ++batch) {
    const std::string where = cat(name, " batch ", batch, " of ", batches);
    if (!ranks.answer_requests(", " + where)) return std::nullopt;
    console_.status(cat("iteration ", run_.state.iteration, " of ", run_.iterations, " | ", where));
    steps_.evaluate(feed.next(steps_.stream()), totals);
  }
  totals.loss_sum = steps_.loss_sum();
  ranks.sum(totals);
  return totals.loss();
}

bool Validation::run(bool final, Metrics& metrics, const Exchanges& ranks) {
  run_.validation_is_due = !final && options_.batch.validates();
  if (!options_.batch.validates()) return true;
  const double began = now_seconds();
  const auto evaluate = [&](DataFeed& feed, const char* name, std::int64_t batches, std::int64_t samples_before,
                            std::int64_t samples) {
    const std::optional<double> loss = this->loss(feed, batches, name, ranks);
    if (loss)
      metrics.report(ValidationReport{.iteration = run_.state.iteration,
                                      .consumed_samples = run_.state.consumed_samples,
                                      .name = name,
                                      .loss = *loss,
                                      .is_final = final,
                                      .samples_before = samples_before,
                                      .samples = samples});
    return loss.has_value();
  };
  const auto open = [&](Split split, std::int64_t consumed) {
    return open_feed(data_, split, consumed, options_, steps_.shape(), *batches_);
  };
  const std::int64_t consumed = is_full() ? 0 : run_.state.consumed_valid_samples;
  if (!feed_) feed_ = open(Split::valid, consumed);
  if (feed_) {
    const std::int64_t samples = is_full() ? data_.dataset(Split::valid)->size() : this->samples();
    if (!evaluate(*feed_, "validation", validation_batches(), consumed, samples)) return false;
    if (is_full())
      feed_.reset();  // the next validation begins with the first sample again
    else
      run_.state.consumed_valid_samples += samples;
  }
  if (final) {
    feed_.reset();  // the test reuses this feed's memory
    auto test = open(Split::test, 0);
    if (test && !evaluate(*test, "test", options_.batch.eval_iters, 0, samples())) return false;
  }
  run_.validation_is_due = false;
  seconds_ = now_seconds() - began;
  run_.interval.began += *seconds_;  // iteration times exclude validation
  return true;
}

}  // namespace mtl
