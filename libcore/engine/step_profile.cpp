#include "engine/step_profile.h"

#include <algorithm>

#include "engine/memory_plan.h"
#include "engine/meta_model.h"
#include "engine/pipeline.h"
#include "optim/optimizer.h"

namespace mtl {

namespace {

std::vector<double> weights_of(const Profile& profile, std::int64_t micro_batches) {
  std::vector<double> weights;
  for (const ProfileEntry& entry : profile.entries()) {
    const bool is_second = entry.kind == ProfileKind::phase && entry.number == 1;
    const double inherited = entry.parent < 0 ? 1 : weights[entry.parent];
    weights.push_back(is_second ? static_cast<double>(micro_batches - 1) : inherited);
  }
  return weights;
}

}  // namespace

StepProfile profile_on_meta(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape) {
  StepProfile out;
  RunShape two = shape;
  two.micro_batches = std::min<std::int64_t>(2, shape.micro_batches);
  MetaModel model(config, dropout, shape, AdamW::states(shape.precision));
  Pipeline pipeline(model.stage, model.stream, model.groups,
                    counting_schedule(shape.layout, static_cast<int>(two.micro_batches)),
                    plan_training(config, dropout, two));
  const BatchBuffers buffers(Device::meta, two);
  model.params.begin_step();
  model.stream.set_profile(&out.profile);
  pipeline.train(buffers);
  {
    const ProfileRange range(model.stream, ProfileKind::phase, "optimizer");
    Optimizer optimizer(model.params, {}, model.stream, model.groups);
    Arena scratch(Device::meta, "scratch", 0);
    optimizer.step(scratch, model.step.on_device());
  }
  out.weights = weights_of(out.profile, shape.micro_batches);
  return out;
}

}  // namespace mtl
