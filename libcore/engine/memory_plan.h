// Memory and work of a run on one rank, measured by one step on the meta device: takes milliseconds, needs no data, and
// is exact for all memory that mtl allocates. The trainer sizes its arenas by the plan before it starts; --dry-run and
// mtl-topo print it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "device/space.h"
#include "device/stream.h"
#include "engine/run_shape.h"
#include "engine/stage.h"
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
  snapshot
};

/// Buffers that a run has, `count` of `bytes` each.
struct PlanEntry {
  Category category;
  Space space;
  std::size_t bytes;
  int count = 1;

  std::size_t total() const { return bytes * count; }
  bool operator==(const PlanEntry&) const = default;
};

struct MemoryPlan {
  /// Every buffer of a run, from the first step to the last:
  ///   parameters, gradients, optimizer, main_weights   a row of the store's table each; with states on the host,
  ///               optimizer also has the device's memory for pieces of them
  ///   slots       activations of a micro-batch in flight
  ///   offloaded   activations of an offloaded layer, on the host
  ///   offload_ring   the ranges in which such layers compute in turn
  ///   messages    hidden states from other stages, received or in use
  ///   batches     tokens, labels and losses of a micro-batch; also on the host unless the device is the cpu; with
  ///               graphs also of every slot
  ///   step        the StepState; on the host its inputs and reports, unless the device is the cpu
  ///   staging     of the communicators, for sums in progress
  /// and, not a buffer, because it exists only while tensors are initialized, loaded or saved:
  ///   snapshot    the host's copy of the largest tensor, unless the device is the cpu
  std::vector<PlanEntry> entries;
  Counters step;  // FLOPs and bytes of one optimizer step, all micro-batches
  SentBytes sent;
  std::int64_t parameters = 0;       // of the whole model, padding not counted
  std::int64_t rank_parameters = 0;  // held by this rank, padding not counted

  Device device = Device::cpu;  // where the run computes

  std::size_t bytes(Category category) const;
  std::size_t total_bytes() const;
  /// Without the snapshot.
  std::size_t buffer_bytes() const { return total_bytes() - bytes(Category::snapshot); }
  /// In the memory of the device, or of the host. On the cpu all memory is the host's.
  std::size_t bytes(Category category, Space space) const;
  std::size_t total_bytes(Space space) const;
  /// The one entry of a category.
  const PlanEntry& entry(Category category) const { return entries[index_of(category)]; }
  PlanEntry& entry(Category category) { return entries[index_of(category)]; }
  /// Makes the buffer at least this large.
  void enlarge(Category category, std::size_t bytes) { entry(category).bytes = std::max(entry(category).bytes, bytes); }
  bool operator==(const MemoryPlan&) const = default;

 private:
  std::size_t index_of(Category category) const;
};

/// Plans a training run: forward, backward, update. In two parts: plan_passes() depends only on the rank's stage and
/// its shards of the tensors; plan_update() adds what also depends on the range of the optimizer's state that the rank
/// owns.
MemoryPlan plan_passes(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape);
void plan_update(MemoryPlan& plan, const GptConfig& config, const RunShape& shape);
MemoryPlan plan_training(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape);
/// A batch of meta tensors.
Batch meta_batch(const RunShape& shape);

}  // namespace mtl
