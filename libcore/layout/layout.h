// The parallel layout of a run, for one rank: the grid and the rank's place in it, the shards over each axis, the
// layers of stages, and the pipeline schedule. Stages, schedules, groups and a rank's memory are derived from it.
#pragma once

#include <cstdint>
#include <optional>

#include "layout/ranks.h"
#include "layout/recompute.h"

namespace mtl {

enum class ScheduleKind { gpipe, one_forward_one_backward, interleaved };

/// The axes whose ranks hold the same weights and read different tokens; gradients are summed over them.
inline constexpr AxisSet kReplicaAxes{Axis::data, Axis::context};

/// Layout::offloaded_layers: all layers of a chunk except kResidentLayers.
inline constexpr std::int64_t kAllLayers = INT64_MAX;
/// The number of a chunk's layers whose activations are never offloaded: they stay in the ring of two ranges
/// (nn/activation_offload.h).
inline constexpr std::int64_t kResidentLayers = 2;

struct Layout {
  RankGrid grid{GridSizes{}};
  int rank = 0;
  bool sequence_parallel = false;  // rows outside tensor-parallel regions are split over the tensor-parallel ranks
  AxisSet optimizer_shards = {};   // the optimizer's state is sharded over these axes: none, or kReplicaAxes (ZeRO-1)
  std::int64_t bucket_elements = 40'000'000;  // a group of units ends once it has this size (param_store.h)

  ScheduleKind schedule = ScheduleKind::one_forward_one_backward;
  int chunks = 1;  // per stage; more than one only with ScheduleKind::interleaved
  int group = 0;   // micro-batches that go through every chunk before the next ones; 0: as many as stages
  Recompute recompute = {};
  bool optimizer_on_host = false;     // main weights and the update rule's states are in host memory
  std::int64_t offloaded_layers = 0;  // per chunk: layers whose activations wait in host memory; or kAllLayers
  std::optional<std::int64_t> first_stage_layers = {};  // --num-layers-in-first-pipeline-stage
  std::optional<std::int64_t> last_stage_layers = {};   // --num-layers-in-last-pipeline-stage
  bool account_for_embedding = false;                   // the embedding counts as a layer of the first stage
  bool account_for_loss = false;                        // the output layer counts as a layer of the last stage

  int size(AxisSet axes) const { return grid.size(axes); }
  int coordinate(Axis axis) const { return grid.coordinate(rank, axis); }
  /// This rank's index in its group over `axes`.
  int index_in(AxisSet axes) const { return grid.index_in_group(rank, axes); }
  int stages() const { return size(Axis::pipeline); }
  int stage() const { return coordinate(Axis::pipeline); }
};

}  // namespace mtl
