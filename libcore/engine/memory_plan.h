// Memory and work of a run on one rank, measured by one step on the meta device. Planning takes milliseconds, needs no
// data, and is exact for all memory that mtl allocates. The trainer sizes its arenas by the plan before it starts;
// --dry-run and mtl-topo print it.
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

/// Buffers of a run: `count` of `bytes` each.
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
  ///   parameters, gradients, optimizer, main_weights   one entry per row of the ParamStore's table; with states on the
  ///               host, optimizer also has the StateRing on the device
  ///   slots       activations of a micro-batch in flight
  ///   offloaded   activations of an offloaded layer, on the host
  ///   offload_ring   the device's ranges, which such layers use in turn
  ///   messages    hidden states and their gradients from other stages, received or in use
  ///   batches     tokens, labels and losses of a micro-batch; also on the host unless the device is the cpu; with
  ///               graphs also one per slot
  ///   step        the StepState; also pinned on the host, for inputs and reports, unless the device is the cpu
  ///   staging     buffers of the communicators, for sums in progress
  /// and one that exists only while tensors are initialized, loaded or saved, and is not a Buffer:
  ///   snapshot    the host's copy of the largest tensor, unless the device is the cpu
  std::vector<PlanEntry> entries;
  Counters step;  // FLOPs and bytes of one optimizer step, all micro-batches
  SentBytes sent;
  std::int64_t parameters = 0;       // of the whole model, without padding
  std::int64_t rank_parameters = 0;  // held by this rank, without padding

  Device device = Device::cpu;  // where the run computes

  std::size_t bytes(Category category) const;
  std::size_t total_bytes() const;
  /// Bytes without the snapshot.
  std::size_t buffer_bytes() const { return total_bytes() - bytes(Category::snapshot); }
  /// Bytes in the memory of the device or of the host. On the cpu all memory is the host's.
  std::size_t bytes(Category category, Space space) const;
  std::size_t total_bytes(Space space) const;
  /// Returns the entry of a category; throws Error unless there is exactly one.
  const PlanEntry& entry(Category category) const { return entries[index_of(category)]; }
  PlanEntry& entry(Category category) { return entries[index_of(category)]; }
  /// Makes the buffers of this category at least this large.
  void enlarge(Category category, std::size_t bytes) { entry(category).bytes = std::max(entry(category).bytes, bytes); }
  bool operator==(const MemoryPlan&) const = default;

 private:
  std::size_t index_of(Category category) const;
};

/// plan_training() plans a training run: forward, backward, update. It has two parts: plan_passes() depends only on the
/// rank's stage and its shards of the tensors; plan_update() adds what also depends on the range of the optimizer's
/// state that the rank owns.
MemoryPlan plan_passes(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape);
void plan_update(MemoryPlan& plan, const GptConfig& config, const RunShape& shape);
MemoryPlan plan_training(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape);
/// Returns a batch of meta tensors.
Batch meta_batch(const RunShape& shape);

}  // namespace mtl
