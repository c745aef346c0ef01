#include "engine/step_profile.h"

#include <algorithm>
#include <cmath>

#include "engine/memory_plan.h"
#include "engine/meta_model.h"
#include "engine/pipeline.h"
#include "optim/optimizer.h"

namespace mtl {

namespace {

constexpr int kMicroBatches = 4, kRepeated = 2;
constexpr const char* kUpdate = "optimizer";  // the phase

std::vector<double> weights_of(const Profile& profile, std::int64_t micro_batches) {
  const std::int64_t repetitions = std::max<std::int64_t>(1, micro_batches - (kMicroBatches - 1));
  std::vector<double> weights;
  for (const ProfileEntry& entry : profile.entries()) {
    const bool is_repeated = entry.kind == ProfileKind::phase && entry.number == kRepeated;
    const double inherited = entry.parent < 0 ? 1 : weights[entry.parent];
    weights.push_back(is_repeated ? static_cast<double>(repetitions) : inherited);
  }
  return weights;
}

bool is_start(const ProfileEntry& entry) { return entry.kind == ProfileKind::communication && entry.started < 0; }

/// What a stream did between the start of an operation and the first wait for it.
struct Meanwhile {
  bool has_operators = false;
  double flops = 0;
};

bool is_within(const std::vector<ProfileEntry>& entries, int entry, ProfileKind kind, const char* name) {
  for (; entry >= 0; entry = entries[entry].parent)
    if (entries[entry].kind == kind && entries[entry].name == name) return true;
  return false;
}

/// Before the update, the optimizer only adds up gradients, which does not hide their sums over ranks. The update of
/// other buckets hides gathers.
Meanwhile after_start(const std::vector<ProfileEntry>& entries, std::size_t start) {
  Meanwhile out;
  const bool gathers = entries[start].name == name_of(OperationKind::all_gather);
  for (std::size_t i = start + 1; i < entries.size() && entries[i].started != static_cast<int>(start); ++i) {
    if (entries[i].kind != ProfileKind::op ||
        (!gathers && is_within(entries, static_cast<int>(i), ProfileKind::phase, kUpdate)))
      continue;
    out.has_operators = true;
    out.flops += entries[i].work.flops;
  }
  return out;
}

}  // namespace

StepProfile profile_on_meta(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape,
                            ParamTraffic::Overlap overlap) {
  StepProfile out;
  RunShape few = shape;
  few.micro_batches = std::min<std::int64_t>(kMicroBatches, shape.micro_batches);
  const StepSchedule schedule = counting_schedule(shape.layout, static_cast<int>(few.micro_batches));
  MetaModel model(config, dropout, shape, AdamW::states(shape.precision));
  Optimizer optimizer(model.params, {.rule = {}, .overlap = overlap}, model.stream, model.groups);
  Pipeline pipeline(model.stage, model.stream, model.groups, schedule, plan_passes(config, dropout, few, schedule),
                    &optimizer.traffic());
  const BatchBuffers buffers(Device::meta, few);
  optimizer.begin_step();
  model.stream.set_profile(&out.profile);
  pipeline.train(buffers);
  {
    const ProfileRange range(model.stream, ProfileKind::phase, kUpdate);
    Arena scratch(Device::meta, "scratch", 0);
    optimizer.step(scratch, model.step.on_device());
  }
  out.weights = weights_of(out.profile, shape.micro_batches);
  if (!overlap.gather) return out;
  const StepSchedule next = counting_schedule(shape.layout, 1);
  optimizer.begin_step();
  pipeline.train(buffers, nullptr, &next);
  out.weights.resize(out.profile.entries().size(), 0);
  return out;
}

std::vector<Collectives> collectives_of(const StepProfile& step) {
  const std::vector<ProfileEntry>& entries = step.profile.entries();
  std::vector<Collectives> out;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const ProfileEntry& entry = entries[i];
    const double weight = step.weights[i];
    if (!is_start(entry) || weight == 0 || entry.name == name_of(OperationKind::send) ||
        entry.name == name_of(OperationKind::receive))
      continue;
    auto found = std::find_if(out.begin(), out.end(), [&](const Collectives& each) {
      return each.group == entry.detail && each.operation == entry.name;
    });
    if (found == out.end()) found = out.insert(out.end(), {.group = entry.detail, .operation = entry.name});
    const Meanwhile meanwhile = after_start(entries, i);
    found->operations += std::llround(weight);
    found->bytes += weight * entry.work.bytes;
    if (is_within(entries, static_cast<int>(i), ProfileKind::layer, "layer"))
      found->layer_operations += std::llround(weight);
    found->flops_meanwhile += weight * meanwhile.flops;
    if (meanwhile.has_operators) continue;
    found->exposed_operations += std::llround(weight);
    found->exposed_bytes += weight * entry.work.bytes;
  }
  return out;
}

}  // namespace mtl
