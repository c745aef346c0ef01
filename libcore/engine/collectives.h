// The collectives of a step, counted on the meta device, and what a rank computes meanwhile: what communication
// computation can hide.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/step_record.h"

namespace mtl {

/// A rank's collectives of one kind in a group, in a step. Messages between stages are not among them, because how long
/// a stage waits for these depends on the other stages (layout/schedule_times.h).
struct Collectives {
  std::string group, operation;  // "tensor", "all-reduce"
  std::int64_t operations = 0;
  std::int64_t layer_operations = 0;  // of those, in blocks: not in the embedding, the head or the update
  double bytes = 0;                   // sent by this rank
  // Of those that the stream waits for before it runs another operator. Nothing on the rank can hide them.
  std::int64_t exposed_operations = 0;
  double exposed_bytes = 0;
  /// FLOPs of the operators between the start of a collective and the wait for it: the sum over the collectives. An
  /// operator counts once for each that is in progress.
  double flops_meanwhile = 0;
};
/// Returns the collectives by kind, in the order in which the first of each starts.
std::vector<Collectives> collectives_of(const StepRecord& step);

}  // namespace mtl
