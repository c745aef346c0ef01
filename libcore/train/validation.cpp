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
  if (data_.validation_sets().empty()) return 0;
  const std::int64_t periodic = interval > 0 ? run_.iterations / interval - run_.state.iteration / interval : 0;
  return periodic + (run_.validation_is_due ? 1 : 0) + 1;
}

void Validation::check_samples() const {
  const BatchOptions& batch = options_.batch;
  if (is_full() || validations_left() == 0 || options_.data.sampler_kind() != SamplerKind::single) return;
  const std::int64_t last = run_.iterations;
  const std::int64_t needed = validations_left() * samples();
  const BlendedDataset* data = data_.dataset(Split::valid).get();
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
  double batches = 0;
  for (const auto& set : data_.validation_sets()) batches += double(batches_of(*set));
  const double validation = seconds_.value_or(batches * seconds / 3);
  return double(run_.iterations - run_.state.iteration) * seconds + double(validations_left()) * validation;
}

/// Returns the number of batches in a validation on this set.
std::int64_t Validation::batches_of(const BlendedDataset& set) const {
  return is_full() ? (set.size() - 1) / run_.batch_sizes.largest() + 1 : options_.batch.eval_iters;
}

/// Returns the name of a set that has a loss of its own, by default its number, as in Megatron-LM. Otherwise "".
std::string Validation::set_name(std::size_t number) const {
  if (!options_.data.multiple_validation_sets) return "";
  const std::vector<std::string>& names = options_.data.validation_set_names;
  return names.empty() ? cat(number) : names[number];
}

/// Reports the loss on a set, of which `report.samples_before` samples have been read. Returns the loss, or nothing if
/// the run ends.
std::optional<double> Validation::evaluate(const std::shared_ptr<const BlendedDataset>& set, Split split,
                                           ValidationReport report, Metrics& metrics, const Exchanges& ranks) {
  const bool is_whole = is_full() && split == Split::valid;
  const std::int64_t batches = is_whole ? batches_of(*set) : options_.batch.eval_iters;
  const auto feed = open_feed(set, split, report.samples_before, options_, steps_.shape(), *batches_);
  StepTotals totals;
  steps_.begin_evaluation();
  for (std::int64_t batch = 1; batch <= batches; ++batch) {
    const std::string where = cat(report.label(), " batch ", batch, " of ", batches);
    if (!ranks.answer_requests(", " + where)) return std::nullopt;
    console_.status(cat("iteration ", run_.state.iteration, " of ", run_.iterations, " | ", where));
    steps_.evaluate(feed->next(steps_.stream()), totals);
  }
  totals.loss_sum = steps_.loss_sum();
  ranks.sum(totals);
  report.loss = totals.loss();
  report.samples = is_whole ? set->size() : samples();
  metrics.report(report);
  return report.loss;
}

bool Validation::run(bool final, Metrics& metrics, const Exchanges& ranks) {
  run_.validation_is_due = !final && options_.batch.validates();
  if (!options_.batch.validates()) return true;
  const double began = now_seconds();
  ValidationReport report{.iteration = run_.state.iteration,
                          .consumed_samples = run_.state.consumed_samples,
                          .is_final = final,
                          .samples_before = is_full() ? 0 : run_.state.consumed_valid_samples};
  const auto& sets = data_.validation_sets();
  double loss_sum = 0;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    report.set = set_name(i);
    const std::optional<double> loss = evaluate(sets[i], Split::valid, report, metrics, ranks);
    if (!loss) return false;
    loss_sum += *loss;
  }
  if (!sets.empty()) {
    if (!is_full()) run_.state.consumed_valid_samples += samples();
    run_.note_validation(loss_sum / double(sets.size()));
  }
  if (const auto& test = data_.dataset(Split::test); final && test) {
    report.name = "test";
    report.set = "";
    report.samples_before = 0;
    if (!evaluate(test, Split::test, report, metrics, ranks)) return false;
  }
  run_.validation_is_due = false;
  seconds_ = now_seconds() - began;
  run_.interval.began += *seconds_;  // iteration times exclude validation
  return true;
}

}  // namespace mtl
