#include "engine/meta_model.h"

namespace mtl {

namespace {

/// Returns a plan for a pipeline whose arenas grow.
MemoryPlan unplanned(const MetaModel& model, const RunShape& shape) {
  MemoryPlan plan;
  plan.entries.assign(model.stage.chunks.size(), {Category::slots, Space::device, 0});
  plan.entries.insert(plan.entries.end(), {{Category::offloaded, Space::host, 0},
                                           {Category::messages, Space::device, model.message_bytes(shape)},
                                           {Category::scratch, Space::device, 0}});
  return plan;
}

}  // namespace

MetaModel::MetaModel(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape)
    : stream(Device::meta, shape.threads, shape.device),
      groups(meta_groups(shape.layout)),
      stage(make_stage(config, dropout, shape)),
      params(
          Device::meta, shape.precision, shape.rules, [&](const ParamVisitor& visit) { stage.params(visit); },
          shape.layout, shape.storage) {}

std::size_t MetaModel::hidden_bytes(const RunShape& shape) const {
  const Chunk& chunk = stage.chunks.at(0);
  const Shape hidden = chunk.hidden_shape(groups, shape.micro_batch * shape.rows_per_sequence());
  return Tensor(nullptr, chunk.hidden_dtype(), hidden).bytes();
}

MetaModel::PassBytes MetaModel::measure(const std::vector<std::function<void(Ctx&, const Chunk&)>>& passes) {
  Arena slot(Device::meta, "activations", 0), scratch(Device::meta, "scratch", 0);
  for (const auto& pass : passes) {
    slot.clear();
    scratch.clear();
    Ctx ctx{.stream = stream, .slot = &slot, .scratch = scratch, .groups = groups, .training = false};
    pass(ctx, stage.chunks.at(0));
  }
  return {slot.peak(), scratch.peak()};
}

MetaStep::MetaStep(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape,
                   const StepSchedule& schedule, ParamTraffic::Overlap overlap)
    : model(config, dropout, shape),
      optimizer(model.params, {.overlap = overlap}, model.stream, model.groups),
      pipeline(model.stage, model.stream, model.groups, schedule, unplanned(model, shape), &optimizer.traffic()) {}

}  // namespace mtl
