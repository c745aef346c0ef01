// What a run takes of one rank, found by running one step on the meta device: milliseconds, no data, exact for what mtl
// allocates itself. The trainer sizes its arenas with it before it starts; --dry-run and mtl-topo print it.
#pragma once

#include <cstdint>

#include "device/stream.h"
#include "engine/stage.h"
#include "nn/gpt_config.h"

namespace mtl {

/// What decides the sizes besides the model.
struct RunShape {
  std::int64_t micro_batch = 1;    // B: sequences at a time
  std::int64_t seq_length = 1;     // T
  std::int64_t micro_batches = 1;  // per step, on this rank
  std::int64_t padded_vocab = 0;
  bool documents = false;  // batches carry document starts
  int threads = 1;         // work areas are per thread
  int batch_sets = 1;      // sets of a step's batches that exist at a time
  Layout layout;           // of which rank, too
};

/// Bytes that a rank sends in a step, by group.
struct SentBytes {
  double tensor = 0, pipeline = 0, data = 0, embedding = 0;

  bool operator==(const SentBytes&) const = default;
};

struct MemoryPlan {
  std::size_t value_bytes = 0;  // parameters
  std::size_t grad_bytes = 0;
  std::size_t state_bytes = 0;  // of the update rule
  std::size_t slot_bytes = 0;   // activations of one micro-batch in flight
  int slots = 0;
  std::size_t hidden_bytes = 0;  // of one message between stages
  std::size_t inbox_bytes = 0;   // of all that come in or are in use
  std::size_t scratch_bytes = 0;
  std::size_t batch_bytes = 0;    // tokens, labels, losses of all sets
  std::size_t staging_bytes = 0;  // of communicators, for sums under way
  Counters step;                  // FLOPs and bytes of one optimizer step, all micro-batches
  SentBytes sent;
  std::int64_t parameters = 0;       // of the whole model, padding not counted
  std::int64_t rank_parameters = 0;  // held by this rank, padding not counted

  std::size_t activation_bytes() const { return static_cast<std::size_t>(slots) * slot_bytes + inbox_bytes; }
  /// Every buffer of a run, from the first step to the last.
  std::size_t total_bytes() const {
    return value_bytes + grad_bytes + state_bytes + activation_bytes() + scratch_bytes + batch_bytes + staging_bytes;
  }
  bool operator==(const MemoryPlan&) const = default;
};

/// Of a training run: forward, backward, update. In two parts: plan_passes() depends on the rank's stage and its part
/// of the tensors alone; plan_update() adds what also depends on which range of the optimizer's state the rank owns.
MemoryPlan plan_passes(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape);
void plan_update(MemoryPlan& plan, const GptConfig& config, const RunShape& shape);
MemoryPlan plan_training(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape);
/// Of evaluation: losses only, nothing kept for a backward.
MemoryPlan plan_evaluation(const GptConfig& config, const RunShape& shape);

/// Views shaped like a batch over no memory at all.
Batch meta_batch(const RunShape& shape);

}  // namespace mtl
