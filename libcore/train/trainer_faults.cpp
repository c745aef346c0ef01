// A fault on one rank ends the run on all ranks with the same error. If possible, all ranks save the state first.
//
// A failed rank makes the other ranks stop waiting, and joins the next exchange of totals, which reports the failure.
// Every rank, interrupted or not, reaches the same exchange, because it is the control group's next operation. (A
// commit also uses the control group, but throws only errors that all ranks have agreed on.) Then the ranks exchange
// their errors and save, and all ranks throw the first error.
#include "comm/rank_outcome.h"
#include "train/trainer.h"

namespace mtl {

Exit Trainer::run() {
  std::exception_ptr own_error;
  bool savable = false;
  try {
    const Exit exit = run_to_end();
    report_repeated_steps();
    return exit;
  } catch (const CommunicationError&) {  // ranks can no longer agree on anything
    throw;
  } catch (const AgreedError&) {  // thrown by all ranks
    rescue(false);
    throw;
  } catch (const RankFailed& failure) {
    savable = failure.can_save;
  } catch (const Interrupted&) {
    savable = join_exchange();
  } catch (...) {
    own_error = std::current_exception();
    ranks_.groups.world().interrupt_others();
    savable = join_exchange();
  }
  end_together(savable, own_error);
}

/// Reports a failure in the exchange that the other ranks will reach. Returns whether all ranks can save.
bool Trainer::join_exchange() {
  StepTotals totals;
  totals.failed = 1;
  try {
    exchange(totals);
  } catch (const RankFailed& failure) {
    return failure.can_save;
  }
  return false;
}

/// Returns true if this rank holds an unsaved state between two steps. Returns false if communication was aborted,
/// because the device may then have updated its weights with garbage.
bool Trainer::can_save() const {
  return saver_.is_behind() && report_ && ranks_.groups.is_intact() && !steps_.is_updating();
}

void Trainer::end_together(bool can_save, const std::exception_ptr& own_error) {
  try {
    throw_first_error(ranks_.groups.world(), own_error);
  } catch (const AgreedError&) {
    rescue(can_save);
    throw;
  }
}

/// Collective, after a fault that all ranks have agreed on: commits the pending save and, with `can_save`, saves the
/// state. Only warns about a failure.
void Trainer::rescue(bool can_save) {
  has_failed_ = true;
  report_repeated_steps();
  try {
    commit_save();
    if (can_save) save(false);
  } catch (const AgreedError& error) {
    if (is_rank_zero()) console_.warn(cat("the state before the fault could not be saved: ", error.what()));
  }
}

/// Returns what a user can do about a step that is not finite.
std::string Trainer::failure_remedy(const EnqueuedStep& step) const {
  const char* scale =
      options_.precision.has_constant_scale() ? "Lower --loss-scale, or leave it out, if it is too large. " : "";
  return cat(scale,
             "Lower --lr if the loss had grown before; otherwise leave this batch out with --iterations-to-skip ",
             step.iteration, "; --no-check-for-nan-in-loss-and-grad continues after such steps");
}

/// Ends the run at a step with a fault. A step without an update has not been counted, so that the state before it is
/// saved.
void Trainer::end_at_fault(const EnqueuedStep& step, const std::string& fault, Exit code, const std::string& remedy) {
  steps_.traffic().finish_gathering();
  const bool has_state = run_.state.iteration > 0 && run_.state.iteration < step.iteration;
  if (has_state) save(false);
  report_->metrics().finish(code);
  throw AgreedError(code, cat("iteration ", step.iteration, ": ", fault,
                              has_state && saver_.has_directory()
                                  ? cat("; the state after iteration ", run_.state.iteration, " is saved")
                                  : "; nothing was saved",
                              ". ", remedy));
}

/// Ends the run after an overflow at the minimum loss scale. Every rank saves and throws the same error.
void Trainer::end_exhausted() {
  steps_.traffic().finish_gathering();
  save(false);
  report_->metrics().finish(Exit::failure);
  throw AgreedError(
      Exit::failure,
      cat("iteration ", run_.state.iteration,
          ": the gradient is not finite in fp16, and the loss scale is at its minimum, ", double(run_.scaler().scale()),
          saver_.has_directory() ? "; the state is saved" : "; without --save nothing was kept",
          ". If the loss had diverged, lower --lr; otherwise lower --min-loss-scale, or train with --bf16"));
}

}  // namespace mtl
