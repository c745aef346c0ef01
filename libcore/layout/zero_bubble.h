// Zero-bubble schedules (Qi et al. 2023, 2024): backward is divided into the gradients of the inputs (backward), which
// other stages wait for, and those of the weights (weight), which fill the waits.
#pragma once

#include <vector>

#include "layout/schedule.h"

namespace mtl {

/// Returns the actions of all stages, without communication: a list schedule by the rule, of some, that gives the
/// shortest total for these micro-batches or the first of them. In a list schedule, a free stage starts the action that
/// its rule prefers of those whose inputs have arrived, or a weight if there is none; with several chunks, the oldest
/// micro-batch's. At most most_in_flight[position] micro-batches are in a place, between forward and weight.
/// `durations` are by position. The result is the same on every rank.
std::vector<std::vector<Action>> zero_bubble(const Places& places, const std::vector<ActionDurations>& durations,
                                             const std::vector<int>& most_in_flight, int micro_batches);

}  // namespace mtl
