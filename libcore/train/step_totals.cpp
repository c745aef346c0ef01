#include "train/step_totals.h"

#include <algorithm>

namespace mtl {

void StepTotals::add(const StepBatch& step) {
  for (int m = 0; m < step.micro_batches; ++m) {
    Tensor losses = step.buffers->losses(m);
    const float* loss = losses.data<float>();
    const float* weight = step.buffers->batch(m).loss_weights.data<float>();
    for (std::int64_t i = 0; i < losses.numel(); ++i) loss_sum += weight[i] != 0 ? double{loss[i]} : 0;
    tokens += step.unmasked[static_cast<std::size_t>(m)];
  }
}

void StepTotals::take(SignalRequests& signals) {
  save += signals.take_save();
  status += signals.take_status();
  end += signals.wants_end();
}

void StepTotals::exchange(Communicator& world, Stream& stream, Tensor memory) {
  double* const fields[] = {&loss_sum, &tokens, &save, &status, &end, &failed, &unsavable};
  static_assert(std::size(fields) == kSums);
  auto* sums = memory.data<double>();
  double* waits = sums + kSums;  // by rank: a sum to which the others add nothing
  for (std::size_t i = 0; i < std::size(fields); ++i) sums[i] = *fields[i];
  std::fill(waits, waits + world.size(), 0.0);
  waits[world.rank()] = waited;
  world.all_reduce(stream, memory, Reduce::sum).wait();
  for (std::size_t i = 0; i < std::size(fields); ++i) *fields[i] = sums[i];
  waited = *std::min_element(waits, waits + world.size());
}

}  // namespace mtl
