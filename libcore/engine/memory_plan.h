// The memory and work of a run on one rank, measured by executing a step on the meta device. Planning takes
// milliseconds, needs no data, and is exact for all memory that mtl allocates. The trainer sizes its arenas from the
// plan before the run starts. --dry-run and mtl-topo print the plan.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "comm/groups.h"
#include "device/space.h"
#include "device/stream.h"
#include "engine/run_shape.h"
#include "engine/stage.h"
#include "layout/schedule.h"
#include "nn/gpt_config.h"

namespace mtl {

enum class Category {
  parameters,
  gradients,
  optimizer,
  main_weights,
  slots,
  offloaded,
  offload_ring,
  messages,
  scratch,
  batches,
  step,
  staging,
  save_copy,
  snapshot
};

/// `count` buffers with `bytes` bytes each.
struct PlanEntry {
  Category category;
  Space space;
  std::size_t bytes;
  int count = 1;

  std::size_t total() const { return bytes * count; }
  bool operator==(const PlanEntry&) const = default;
};

struct MemoryPlan {
  /// All buffers that exist from a run's first step to its last:
  ///   parameters, gradients, optimizer, main_weights
  ///               one entry per row of the ParamMemory's table. If states are in host memory or in files, `optimizer`
  ///               also has entries for the StateRing: on the device, and between files and the device
  ///   slots       activations of a micro-batch in flight: one entry per chunk of the stage
  ///   offloaded   activations of an offloaded layer, in host memory
  ///   offload_ring
  ///               ranges of device memory that offloaded layers take turns using
  ///   messages    hidden states received from other stages; gradients received from or sent to them
  ///   scratch     temporary tensors
  ///   batches     a micro-batch's tokens, labels and losses; also in host memory unless the device is the cpu. With
  ///               graphs, there is also one for each slot
  ///   step        the StepState; also in pinned host memory, for inputs and results, unless the device is the cpu
  ///   staging     the communicators' buffers for sums in progress
  ///   save_copy   with RunShape::copies_saves, the copy of what this rank writes to a checkpoint
  /// The following entry is not a Buffer. It exists only while tensors are initialized, loaded or saved:
  ///   snapshot    the host's copy of the largest tensor that it cannot access: on a device or in a file
  std::vector<PlanEntry> entries;
  Counters step;                     // FLOPs and bytes for one optimizer step over all micro-batches
  double update_flops = 0;           // of these, those of the update
  std::vector<GroupTraffic> sent;    // in the step
  std::int64_t parameters = 0;       // in the entire model, without padding
  std::int64_t rank_parameters = 0;  // on this rank, without padding

  Device device = Device::cpu;  // the device on which the run computes

  /// Returns the bytes in memory, without those in files.
  std::size_t bytes(Category category) const;
  std::size_t total_bytes() const;
  /// Returns the bytes in Buffers: in memory and in files, without the snapshot.
  std::size_t buffer_bytes() const { return total_bytes() + total_bytes(Space::file) - bytes(Category::snapshot); }
  /// Returns the bytes in device memory, in host memory or in files, depending on `space`. On the cpu, all memory is
  /// host memory.
  std::size_t bytes(Category category, Space space) const;
  std::size_t total_bytes(Space space) const;
  /// Returns the space that limits a run: device memory, or on the cpu host memory.
  Space scarce_space() const { return device == Device::cpu ? Space::host : Space::device; }
  /// Returns a category's entries.
  std::vector<PlanEntry> all(Category category) const;
  /// Returns a category's entry. Throws Error unless there is exactly one.
  const PlanEntry& entry(Category category) const { return entries[index_of(category)]; }
  PlanEntry& entry(Category category) { return entries[index_of(category)]; }
  /// Enlarges a category's buffers to at least `bytes` bytes each.
  void enlarge(Category category, std::size_t bytes) { entry(category).bytes = std::max(entry(category).bytes, bytes); }
  bool operator==(const MemoryPlan&) const = default;

 private:
  Space space_of(const PlanEntry& entry) const {
    return device == Device::cpu && entry.space == Space::device ? Space::host : entry.space;
  }
  std::size_t index_of(Category category) const;
};

struct MetaStep;  // meta_model.h

/// plan_training() plans a training run: forward, backward and update. It calls the other two functions. plan_passes()
/// plans forward and backward, which depend only on the rank's stage and its shards of the tensors; `step` is new, with
/// the rank's schedule. plan_update() then adds the update to `plan`. The update also depends on how much of the
/// optimizer state the rank owns, so that `step` may be another rank's, whose gradients do not exist.
MemoryPlan plan_passes(MetaStep& step, const GptConfig& config, const RunShape& shape);
void plan_update(MemoryPlan& plan, MetaStep& step, const RunShape& shape);
MemoryPlan plan_training(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape);
/// Returns a batch of meta tensors.
Batch meta_batch(const RunShape& shape);

}  // namespace mtl
