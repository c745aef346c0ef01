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
  /// By entry of `profile`: how many entries of a real step it stands for. Those of the third micro-batch stand for all
  /// between the second and the last. The first two stand only for themselves: with a ring of gradients
  /// (optim/param_memory.h), a micro-batch ends the last sums of the one before, and those of the first are not added.
  std::vector<double> weights;
};

/// Profiles forward and backward of at most four micro-batches, and the update. Unlike in a run, each micro-batch
/// passes through all chunks and back before the next begins (counting_schedule()). Operations between ranks start, and
/// are waited for, where a run does so. With Overlap::gather, the next step's first micro-batch follows, because it
/// waits for the gathers; its weight is 0.
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
