#include "train/step_totals.h"

#include <algorithm>
#include <vector>

namespace mtl {

void StepTotals::add_tokens(const StepBatch& step) {
  for (int m = 0; m < step.micro_batches; ++m) tokens += step.unmasked[m];
}

void StepTotals::take(const StepReport& report) {
  loss_sum = report.loss_sums[0];
  z_loss_sum = report.loss_sums[1];
  nonzero_updates = double(report.nonzero_updates);
  lost_updates = double(report.lost_updates);
  lost_copies = double(report.lost_copies);
  zero_gradients = double(report.zero_gradients);
  params_squares = report.params_squares;
  skipped = report.found_inf != 0 ? 1 : 0;
}

void StepTotals::take(SignalRequests& signals, StopRequest& stop_request) {
  save += signals.take_save();
  status += signals.take_status();
  end += signals.end_requested();
  stop += stop_request.is_requested();
}

void StepTotals::exchange(Communicator& world) {
  double* const fields[] = {&loss_sum,
                            &z_loss_sum,
                            &tokens,
                            &save,
                            &status,
                            &end,
                            &stop,
                            &failed,
                            &unsavable,
                            &writing,
                            &nonzero_updates,
                            &lost_updates,
                            &lost_copies,
                            &zero_gradients,
                            &params_squares,
                            &skipped,
                            &wrong};
  constexpr std::size_t kSums = std::size(fields);
  std::vector<double> sums(kSums + world.size());
  double* waits = sums.data() + kSums;  // by rank; each rank adds only its own entry
  for (std::size_t i = 0; i < kSums; ++i) sums[i] = *fields[i];
  waits[world.rank()] = waited;
  Stream stream(Device::cpu);
  world.all_reduce(stream, Tensor(sums.data(), DType::f64, {std::ssize(sums)})).join();
  for (std::size_t i = 0; i < kSums; ++i) *fields[i] = sums[i];
  waited = *std::min_element(waits, waits + world.size());
}

}  // namespace mtl
