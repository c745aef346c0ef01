#include "engine/meta_model.h"

namespace mtl {

MetaModel::MetaModel(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape,
                     const std::optional<std::vector<StateSpec>>& states)
    : stream(Device::meta, shape.threads, shape.device),
      groups(meta_groups(shape.layout)),
      stage(make_stage(config, dropout, shape.layout, shape.padded_vocab, shape.precision.residual)),
      params(
          Device::meta, shape.precision, states, [&](const ParamVisitor& visit) { stage.params(visit); },
          shape.layout) {}

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

}  // namespace mtl
