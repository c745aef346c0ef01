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
  Category what;
  Space where;
  std::size_t bytes;
  int count = 1;

  std::size_t total() const { return bytes * count; }
  bool operator==(const PlanEntry&) const = default;
};

struct MemoryPlan {
  /// Every buffer of a run, from the first step to the last:
  ///   parameters, gradients, optimizer, main_weights   a row of the store's table each; with the states on the host,
  ///               optimizer has the device's memory for pieces of them, too
  ///   slots       activations of a micro-batch in flight
  ///   offloaded   activations of an offloaded layer, on the host
  ///   offload_ring   the ranges in which such layers compute in turn
  ///   messages    hidden states between stages, that have come in or are in use
  ///   batches     tokens, labels and losses of a micro-batch; on the host too, when the device is not the cpu; with
  ///               graphs, of every slot, too
  ///   step        the StepState; on the host its inputs and reports, when the device is not the cpu
  ///   staging     of the communicators, for sums under way
  /// and, not a buffer, because it exists only while tensors are initialized, loaded or saved:
  ///   snapshot    the host's copy of the largest tensor, when the device is not the cpu
  std::vector<PlanEntry> entries;
  Counters step;  // FLOPs and bytes of one optimizer step, all micro-batches
  SentBytes sent;
  std::int64_t parameters = 0;       // of the whole model, padding not counted
  std::int64_t rank_parameters = 0;  // held by this rank, padding not counted

  Device device = Device::cpu;  // where the run computes

  std::size_t bytes(Category what) const;
  std::size_t total_bytes() const;
  /// Without the snapshot.
  std::size_t buffer_bytes() const { return total_bytes() - bytes(Category::snapshot); }
  /// In the memory of the device, or of the host. On the cpu all memory is the host's.
  std::size_t bytes(Category what, Space where) const;
  std::size_t total_bytes(Space where) const;
  /// The one entry of a category.
  const PlanEntry& entry(Category what) const { return entries[place_of(what)]; }
  PlanEntry& entry(Category what) { return entries[place_of(what)]; }
  /// Makes the buffer at least this large.
  void enlarge(Category what, std::size_t bytes) { entry(what).bytes = std::max(entry(what).bytes, bytes); }
  bool operator==(const MemoryPlan&) const = default;

 private:
  std::size_t place_of(Category what) const;
};

/// Plans a training run: forward, backward, update. In two parts: plan_passes() depends on the rank's stage and its
/// part of the tensors alone; plan_update() adds what also depends on which range of the optimizer's state the rank
/// owns.
MemoryPlan plan_passes(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape);
void plan_update(MemoryPlan& plan, const GptConfig& config, const RunShape& shape);
MemoryPlan plan_training(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape);
/// A batch of meta tensors.
Batch meta_batch(const RunShape& shape);

}  // namespace mtl
