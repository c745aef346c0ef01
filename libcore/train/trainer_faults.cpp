// A fault on one rank ends the run on all ranks alike, saved where possible.
//
// A rank that fails interrupts the waits of the others and takes part in the next exchange of totals, which reports the
// failure. All others come to the same exchange, interrupted or not: it is the next operation of the control group,
// whatever they were doing. (A commit is one, too, but no error leaves it before all ranks have agreed on it.) Then
// they exchange their errors, save, and throw the first one.
#include "comm/rank_outcome.h"
#include "train/rank_failed.h"
#include "train/trainer.h"

namespace mtl {

Exit Trainer::run() {
  std::exception_ptr own;
  bool savable = false;
  try {
    return run_to_end();
  } catch (const CommunicationError&) {  // nothing can be agreed
    throw;
  } catch (const AgreedError&) {  // thrown by all
    throw;
  } catch (const RankFailed& failure) {
    savable = failure.can_save;
  } catch (const Interrupted&) {
    savable = join_exchange();
  } catch (...) {
    own = std::current_exception();
    ranks_.groups.world().interrupt_others();
    savable = join_exchange();
  }
  end_together(savable, own);
}

/// Takes part, as failed, in the exchange that the other ranks come to; returns whether all ranks can save.
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

/// Whether this rank holds the state after a whole number of steps, not saved yet. A device computes on when
/// communication has ended without results, and may have updated its weights with garbage.
bool Trainer::can_save() const {
  return save_directory_ && metrics_ && ranks_.groups.is_intact() &&
         saved_ != SavePoint{state_.iteration, validating_} && !optimizer_.update_begun();
}

void Trainer::end_together(bool can_save, const std::exception_ptr& own) {
  try {
    throw_first_error(ranks_.groups.world(), own);
  } catch (const AgreedError& error) {
    try {
      if (can_save) save(validating_);
    } catch (const AgreedError& save_error) {
      if (is_rank_zero()) console_.warn(cat("the state before the fault could not be saved: ", save_error.what()));
    }
    throw;
  }
}

/// An overflow that no smaller loss scale answers: every rank knows of it, saves, and throws the same error.
void Trainer::end_exhausted() {
  optimizer_.sync().finish_gathering();
  save(is_validation_iteration());
  metrics_->finish();
  throw AgreedError(
      Exit::failure,
      cat("iteration ", state_.iteration,
          ": the gradient is not finite in fp16, and the loss scale is at its minimum, ", double(scaler_.scale()),
          save_directory_ ? "; saved" : "; without --save nothing was kept",
          ". If the loss had diverged, lower --lr; otherwise lower --min-loss-scale, or train with --bf16"));
}

}  // namespace mtl
