// Finds machines that compute wrong. --rerun-mode computes steps again, and compares digests. Results repeat bit for
// bit, so that a run of a step that differs from another one was computed wrong. Weights and optimizer states do not
// change between two updates. --check-weight-hash-across-dp-replicas-interval compares replicas after updates.
#include <algorithm>

#include "base/files.h"
#include "base/host_name.h"
#include "base/instruction_set.h"
#include "comm/rank_outcome.h"
#include "comm/text_exchange.h"
#include "kernels/choices_context.h"
#include "train/trainer.h"

namespace mtl {

namespace {

/// Returns a text that is equal where results have equal bits, on a rank that computes wrong or right.
std::string platform(const RunShape& shape, const EnqueuedStep& step) {
  const std::string samples = cat(", ", step.batch->micro_batches, " x ", shape.micro_batch, " samples");
  if (shape.device == Device::cuda) return choices_context(shape.device) + samples;
  std::string model;
  for (const std::string& line : split(read_file("/proc/cpuinfo"), '\n'))
    if (model.empty() && starts_with(line, "model name")) model = line.substr(line.find(':') + 1);
  return cat(model, ", ", name_of(best_instruction_set()), ", ", shape.threads, " threads", samples);
}

}  // namespace

/// Collective: computes a step's gradients, and again if --rerun-mode requires it. The update follows.
void Trainer::compute_step(const EnqueuedStep& step) {
  const StepReport first = steps_.compute(step);
  if (options_.checks.repeats_all()) {
    const std::string differences = compare_runs(step, first, steps_.compute(step));
    ++repeated_;
    if (differences.empty()) return;
    ++differing_;
    console_.warn(cat("iteration ", step.iteration, ", computed twice, differs: ", differences));
    return;
  }
  StepTotals totals;
  if (steps_.counts_tokens()) totals.add_tokens(*step.batch);
  totals.take(first);
  exchange(totals);
  check_skipped(totals.skipped, step, first);
  verdict_ = run_.checks.judge(totals, first);
  if (failed_before_ && failed_before_->iteration == step.iteration && conclude(step, first)) return;
  if (verdict_.is_expected()) return;
  check_state();
  const std::string& unexpected = verdict_.failure.empty() ? verdict_.warning : verdict_.failure;
  const std::string differences = compare_runs(step, first, steps_.compute(step));
  if (!differences.empty())
    end_at_fault(step, cat(unexpected, " in the first of two runs, which differ: ", differences), Exit::corrupt,
                 "The machine of the lowest of these ranks computes wrong, or one that sends to it: leave it out");
  if (!verdict_.failure.empty()) end_at_repeated_failure(step, first);
  verdict_.warning += ", also when computed again";
}

/// Ends the run at a step that fails in the same way each time. If it can be computed on other machines, keeps what
/// these have computed.
void Trainer::end_at_repeated_failure(const EnqueuedStep& step, const StepReport& report) {
  if (report.found_inf != 0) report_nonfinite_gradients(step, true);
  const std::string fault = verdict_.failure + ", also when computed again";
  if (!saver_.has_directory() || run_.state.iteration == 0)
    end_at_fault(step, fault, Exit::corrupt, failure_remedy(step));
  steps_.traffic().finish_gathering();
  save(false);
  const FailedStep failed{step.iteration, verdict_.failure, gather_results(step, report)};
  try {
    work_on_first_rank(ranks_.groups.world(), [&] {
      write_file_atomic(saver_.failed_step_path(), failed.to_text());
      return std::string();
    });
  } catch (const AgreedError& error) {
    end_at_fault(step, cat(fault, ", but another session will not know that (", error.what(), ")"), Exit::corrupt,
                 failure_remedy(step));
  }
  end_at_fault(step, fault, Exit::recheck,
               cat("The same command", resume_flag(), " on other machines tells whether these computed right. ",
                   failure_remedy(step)));
}

/// Collective: returns the ranks whose runs of a step differ.
std::string Trainer::compare_runs(const EnqueuedStep& step, const StepReport& first, const StepReport& second) {
  StepTotals totals;
  totals.wrong = first.digests.computed_same(second.digests) ? 0 : 1;
  exchange(totals);
  if (totals.wrong == 0) return "";
  return describe_differences(gather_results(step, first), gather_results(step, second));
}

/// Collective: returns what each rank computed.
std::vector<RankResult> Trainer::gather_results(const EnqueuedStep& step, const StepReport& own) {
  const RankResult result{host_name(), platform(steps_.shape(), step), state_digest_.value_or(0), own.digests.gradients,
                          own.digests.sums};
  std::vector<RankResult> results;
  for (const std::string& text : gather_texts(ranks_.groups.world(), result.to_json().dump()))
    results.push_back(RankResult::from_json(Json::parse(text)));
  return results;
}

/// Collective: reads what an earlier session has left about the step at which it failed.
void Trainer::read_failed_step() {
  if (!options_.checks.repeats_unexpected() || !saver_.has_directory()) return;
  const std::string path = saver_.failed_step_path();
  const std::string text = work_on_first_rank(
      ranks_.groups.world(), [&] { return file_exists(path) ? read_regular_file(path) : std::string(); });
  if (text.empty()) return;
  failed_before_ = FailedStep::from_text(text, path);
  if (failed_before_->iteration <= run_.state.iteration) forget_failed_step();
}

void Trainer::forget_failed_step() {
  if (is_rank_zero()) remove_tree(saver_.failed_step_path());
  failed_before_.reset();
}

/// Collective: compares a step with the session in which it failed. Returns false if that was another step, which began
/// with other weights, and true if the run can go on.
bool Trainer::conclude(const EnqueuedStep& step, const StepReport& report) {
  const std::vector<RankResult> results = gather_results(step, report);
  const bool is_same = failed_before_->is_same_step(results);
  const FailedStep::Conclusion conclusion = failed_before_->conclude(results, verdict_.failure);
  if (!is_same || conclusion.exit != Exit::recheck) forget_failed_step();
  if (!is_same) return false;
  if (conclusion.exit != Exit::ok) end_at_fault(step, conclusion.text, conclusion.exit, failure_remedy(step));
  console_.warn(cat("iteration ", step.iteration, " ", conclusion.text));
  return true;
}

/// Collective: ends the run if weights or optimizer states of some rank are not what the last update has made.
void Trainer::check_state() {
  StepTotals totals;
  const bool is_wrong = state_digest_ && steps_.state_digest() != *state_digest_;
  totals.wrong = is_wrong ? 1 : 0;
  exchange(totals);
  if (totals.wrong > 0) end_at_changed_state(is_wrong);
}

/// Collective: ends the run if ranks that should have the same weights have not. No step may be in flight.
void Trainer::compare_replicas() {
  const Layout& layout = steps_.shape().layout;
  const std::string own = cat(layout.stage(), " ", layout.coordinate(Axis::tensor), " ", steps_.weights_digest());
  const std::vector<std::string> all = gather_texts(ranks_.groups.world(), own);
  const bool is_outvoted = 2 * std::ranges::count(all, own) <= layout.size(kReplicaAxes);
  StepTotals totals;
  totals.wrong = is_outvoted ? 1 : 0;
  exchange(totals);
  if (totals.wrong == 0) return;
  end_unsaved(cat("after iteration ", run_.state.iteration, ", the weights of ", name_ranks(is_outvoted),
                  " are not those of most of their replicas: the machine computes wrong"));
}

/// Ends the run after they have changed on some rank; `is_own`: on this one.
void Trainer::end_at_changed_state(bool is_own) {
  end_unsaved(cat("weights or optimizer states of ", name_ranks(is_own), " have changed since the update of iteration ",
                  run_.state.iteration, ": the machine's memory is at fault"));
}

/// Ends the run if only some ranks make the update of a step. All compute the same norm from the same sums. `skipped`
/// is as in StepTotals, over all ranks.
void Trainer::check_skipped(double skipped, const EnqueuedStep& step, const StepReport& report) {
  if (skipped == 0 || skipped == ranks_.groups.world().size()) return;
  end_unsaved(cat("iteration ", step.iteration, ": the gradient norm is not finite on ",
                  name_ranks(report.found_inf != 0), " alone: the machine computes wrong"));
}

/// Ends the run on all ranks when what they hold is not worth saving, because of a machine.
void Trainer::end_unsaved(const std::string& fault) {
  report_->metrics().finish(Exit::corrupt);
  throw AgreedError(Exit::corrupt,
                    cat(fault, "; leave it out. Nothing was saved since the newest checkpoint, from which ",
                        "the same command", resume_flag(), " resumes"));
}

/// Collective: returns the ranks for which `is_own` is true.
std::string Trainer::name_ranks(bool is_own) {
  std::vector<std::string> ranks;
  const std::string own = is_own ? cat("rank ", ranks_.rank, " (", host_name(), ")") : "";
  for (const std::string& text : gather_texts(ranks_.groups.world(), own))
    if (!text.empty()) ranks.push_back(text);
  return join(ranks, ", ");
}

void Trainer::report_repeated_steps() const {
  if (repeated_ == 0) return;
  console_.info(cat(repeated_, " iterations were computed twice; ", differing_, " of them differed"));
}

}  // namespace mtl
