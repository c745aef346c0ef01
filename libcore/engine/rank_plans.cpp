#include "engine/rank_plans.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace mtl {

namespace {

/// What a rank's plan depends on besides what all ranks have in common. Ranks that agree in it have equal plans; ranks
/// that do not may have, too.
using PlanKey = std::tuple<bool, bool, std::int64_t, int, bool, std::int64_t, int>;

class PlanKeys {
 public:
  PlanKeys(const GptConfig& config, const RunShape& shape)
      : vocab_(config.vocab_size), part_(shape.padded_vocab / shape.placement.size(Axis::tensor)) {
    Placement placement = shape.placement;
    auto layers = placement.split(config.num_layers);
    for (int stage = 0; stage < placement.stages(); ++stage) {
      placement.rank = placement.grid.rank_at({0, 0, 0, 0, stage});
      layers_.push_back(layers[static_cast<std::size_t>(stage)][0].count);
      in_flight_.push_back(max_in_flight(placement.actions(static_cast<int>(shape.micro_batches))));
    }
  }

  PlanKey of(const Placement& placement) const {
    auto stage = static_cast<std::size_t>(placement.stage());
    std::int64_t tensor = placement.coordinate(Axis::tensor);
    // Of a table's rows the last tensor-parallel ranks may have fewer that are not padding; the first counts what all
    // of them have in the gradient's norm.
    std::int64_t rows = std::clamp<std::int64_t>(vocab_ - tensor * part_, 0, part_);
    int shard = placement.shard_optimizer ? placement.coordinate(Axis::data) : 0;
    return {stage == 0, stage + 1 == layers_.size(), layers_[stage], in_flight_[stage], tensor == 0, rows, shard};
  }

 private:
  std::int64_t vocab_, part_;
  std::vector<std::int64_t> layers_;  // by stage
  std::vector<int> in_flight_;
};

}  // namespace

std::vector<RankPlan> plan_ranks(const GptConfig& config, const DropoutOptions& dropout, RunShape shape) {
  PlanKeys keys(config, shape);
  std::map<PlanKey, std::size_t> place_of_key;
  std::vector<RankPlan> out;
  for (int rank = 0; rank < shape.placement.grid.world(); ++rank) {
    shape.placement.rank = rank;
    auto [at, is_new] = place_of_key.emplace(keys.of(shape.placement), out.size());
    if (is_new) {
      MemoryPlan plan = plan_training(config, dropout, shape);
      auto same = std::find_if(out.begin(), out.end(), [&](const RankPlan& other) { return other.plan == plan; });
      at->second = static_cast<std::size_t>(same - out.begin());
      if (same == out.end()) out.push_back({{}, plan});
    }
    out[at->second].ranks.push_back(rank);
  }
  return out;
}

}  // namespace mtl
