// A run's parallel layout, as seen by one rank: the rank grid and this rank's position in it, the axes that shard
// tensors, the layers on each stage, and the pipeline schedule. Stages, schedules, communication groups and memory
// plans are derived from the layout.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "layout/ownership.h"
#include "layout/place.h"
#include "layout/ranks.h"

namespace mtl {

enum class ScheduleKind { gpipe, one_forward_one_backward, interleaved, zero_bubble_1, zero_bubble_2, zero_bubble_v };

/// How context-parallel ranks exchange keys and values (nn/context_region.h).
enum class ContextExchange { all_gather, ring };

/// How long a micro-batch's forward and backward take in one place. `weight` is the part of backward that computes
/// weight gradients, and `backward` the rest.
struct ActionDurations {
  double forward = 1, backward = 1, weight = 1;
  bool operator==(const ActionDurations&) const = default;
};

/// How the layers are divided among the stages.
struct LayerSplit {
  std::vector<std::int64_t> layer_counts = {};  // of every place, by position; empty: by the rules of split_layers()
  std::optional<std::int64_t> first_stage_layers = {};  // --num-layers-in-first-pipeline-stage
  std::optional<std::int64_t> last_stage_layers = {};   // --num-layers-in-last-pipeline-stage
  bool account_for_embedding = false;                   // counts as a layer on the first stage
  bool account_for_loss = false;                        // the output layer counts as a layer on the last stage
};

struct Layout {
  RankGrid grid{GridSizes{}};  // of all layers but experts; has no expert axis
  /// With expert parallelism: the grid of the expert layers. It has no context axis: grid's context and data ranks are
  /// divided into an expert axis and a data axis.
  std::optional<RankGrid> expert_grid = {};
  int rank = 0;
  bool sequence_parallel = false;  // outside tensor-parallel regions, split rows along the tensor axis
  ContextExchange context_exchange = ContextExchange::all_gather;
  int zero = 0;  // ZeRO stage, what replicas shard: 1: optimizer state, 2: gradients, too, 3: values, too

  ScheduleKind schedule = ScheduleKind::one_forward_one_backward;
  int chunks = 1;                               // per stage: at least 2 if interleaved, 2 in zero_bubble_v, else 1
  std::vector<ActionDurations> durations = {};  // of every place, by position, for zero-bubble schedules; empty: equal
  int group = 0;  // micro-batches per group in an interleaved schedule (schedule.h); 0: as many as stages
  LayerSplit split = {};

  int size(AxisSet axes) const { return grid.size(axes); }
  int coordinate(Axis axis) const { return grid.coordinate(rank, axis); }
  /// Returns this rank's index in its group over `axes`.
  int index_in(AxisSet axes) const { return grid.index_in_group(rank, axes); }
  int stages() const { return size(Axis::pipeline); }
  /// The axes whose ranks update different ranges: Ownership::owners of all parameters.
  AxisSet owners() const { return zero >= 1 ? kReplicaAxes : AxisSet(); }
  bool shards_gradients() const { return zero >= 2 && size(kReplicaAxes) > 1; }
  bool shards_values() const { return zero >= 3 && size(kReplicaAxes) > 1; }
  /// Returns true if attention sends messages, around a ring of context-parallel ranks.
  bool has_ring() const { return size(Axis::context) > 1 && context_exchange == ContextExchange::ring; }
  Places places() const {
    return {stages(), chunks, schedule == ScheduleKind::zero_bubble_v ? Arrangement::vee : Arrangement::in_turn};
  }
  int stage() const { return coordinate(Axis::pipeline); }
};

}  // namespace mtl
