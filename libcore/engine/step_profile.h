// The operators in one step on a rank, and its operations with other ranks, counted on the meta device. This is the
// input for predicting a roofline before a run, and shows what communication computation can hide.
#pragma once

#include <string>
#include <vector>

#include "device/profile.h"
#include "engine/run_shape.h"
#include "nn/block.h"
#include "nn/gpt_config.h"
#include "optim/param_traffic.h"

namespace mtl {

struct StepProfile {
  Profile profile{Device::meta};
  /// By entry of `profile`: how many entries in a real step it represents. The third micro-batch represents all but the
  /// first two, which are special in the ring of sharded gradients (optim/param_memory.h), and the last.
  std::vector<double> weights;
};

/// Profiles forward and backward of at most four micro-batches, and the update. Each micro-batch passes through all
/// chunks and back before the next begins (counting_schedule()). Otherwise, operations between ranks start, and are
/// waited for, as in a run. With Overlap::gather, the next step's first micro-batch follows, with a weight of 0: it
/// waits for the gathers.
StepProfile profile_on_meta(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape,
                            ParamTraffic::Overlap overlap = {});

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
std::vector<Collectives> collectives_of(const StepProfile& step);

}  // namespace mtl
