// The place of one rank in a parallel run: where it sits in the grid, and what its stage holds and does.
#pragma once

#include <optional>
#include <vector>

#include "layout/ranks.h"
#include "layout/schedule.h"
#include "layout/stages.h"

namespace mtl {

struct Placement {
  RankGrid grid{GridSizes{}};
  int rank = 0;
  bool sequence_parallel = false;  // rows outside tensor-parallel regions are split over the tensor-parallel ranks
  bool shard_optimizer = false;    // its state is split over the data-parallel ranks (ZeRO-1)
  ScheduleKind schedule = ScheduleKind::one_forward_one_backward;
  std::optional<std::int64_t> first_stage_layers = {}, last_stage_layers = {};
  bool account_for_embedding = false, account_for_loss = false;  // as in SplitOptions

  int size(Axis axis) const { return grid.size(axis); }
  int coordinate(Axis axis) const { return grid.coordinate(rank, axis); }
  int stages() const { return size(Axis::pipeline); }
  int stage() const { return coordinate(Axis::pipeline); }
  /// The layers of every stage.
  std::vector<std::vector<LayerRange>> split(std::int64_t num_layers) const;
  /// What this rank's stage does in a step, communication included.
  std::vector<Action> actions(int micro_batches) const;
};

}  // namespace mtl
