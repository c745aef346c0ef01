#include "layout/placement.h"

namespace mtl {

std::vector<std::vector<LayerRange>> Placement::split(std::int64_t num_layers) const {
  SplitOptions options;
  options.num_layers = num_layers;
  options.stages = stages();
  options.first_stage_layers = first_stage_layers;
  options.last_stage_layers = last_stage_layers;
  options.account_for_embedding = account_for_embedding;
  options.account_for_loss = account_for_loss;
  return split_layers(options);
}

std::vector<Action> Placement::actions(int micro_batches) const {
  PipelineShape shape;
  shape.stages = stages();
  shape.micro_batches = micro_batches;
  return with_communication(stage_schedule(schedule, shape, stage()), stages(), stage(), 1);
}

}  // namespace mtl
