#include "engine/memory_plan.h"

#include "base/enum_index.h"
#include "comm/staging.h"
#include "device/step_state.h"
#include "engine/batch_buffers.h"
#include "engine/meta_model.h"
#include "nn/model_params.h"

namespace mtl {

Batch meta_batch(const RunShape& shape) {
  return batch_of(shape, [](DType dtype, const Shape& of) { return Tensor(nullptr, dtype, of); });
}

namespace {

/// Adds `counts`, multiplied by `times`, to the plan. `times` may be negative.
void add(MemoryPlan& plan, const StepCounts& counts, std::int64_t times) {
  plan.step.flops += double(times) * counts.work.flops;
  plan.step.bytes += double(times) * counts.work.bytes;
  for (std::size_t group = 0; group < counts.sent.size(); ++group) {
    if (group == plan.sent.size()) plan.sent.push_back({counts.sent[group].group, {}});
    plan.sent[group].sent.bytes += double(times) * counts.sent[group].sent.bytes;
    plan.sent[group].sent.operations += times * counts.sent[group].sent.operations;
  }
}

Category category_of(StorageRole role) {
  constexpr Category categories[] = {Category::parameters, Category::gradients, Category::optimizer,
                                     Category::main_weights};
  return categories[enum_index(role)];
}

/// Returns the size in bytes of the largest tensor that the host copies from or to the device or a file. The host
/// copies one tensor at a time, so it needs no more memory than this.
std::size_t snapshot_bytes(const ParamMemory& params, Device device) {
  std::size_t largest = 0;
  for (std::size_t row = 0; row < params.table().size(); ++row) {
    const Storage& storage = params.table()[row];
    if (storage.role == StorageRole::gradients || storage.space == Space::host) continue;
    if (device == Device::cpu && storage.space == Space::device) continue;
    for (int param = 0; param < params.size(); ++param)
      largest = std::max(largest, params.row_part(param, row).bytes());
  }
  return largest;
}

/// Returns the size in bytes of a copy of what this rank writes to checkpoints, including gaps between parameters and
/// padding.
std::size_t save_copy_bytes(const ParamMemory& params, bool states) {
  std::size_t bytes = 0;
  for (const Bucket& bucket : params.buckets()) {
    if (std::ranges::none_of(bucket.segments, [&](const Segment& each) { return params.writes(each.param); })) continue;
    bytes += bucket.owned_main().bytes();
    if (!states) continue;
    for (const Tensor& state : bucket.states()) bytes += state.bytes();
  }
  return bytes;
}

MemoryPlan plan_of_passes(const MetaStep& step, const RunShape& shape, const GptConfig& config) {
  const auto& [model, optimizer, pipeline, scratch] = step;
  MemoryPlan plan;
  for (std::size_t row = 0; row < model.params.table().size(); ++row) {
    const Storage& storage = model.params.table()[row];
    plan.entries.push_back({category_of(storage.role), storage.space, model.params.bytes(row)});
  }
  for (const auto& [role, category] :
       {std::pair(Role::values, Category::parameters), std::pair(Role::gradients, Category::gradients)}) {
    if (const std::size_t work = model.params.work_bytes(role); work > 0)
      plan.entries.push_back({category, Space::device, work});
  }
  for (int chunk = 0; chunk < std::ssize(model.stage.chunks); ++chunk)
    plan.entries.push_back({Category::slots, Space::device, pipeline.slot_peak(chunk), pipeline.slots_of(chunk)});
  if (const int layers = pipeline.offloaded_layers(); layers > 0) {
    const std::size_t range = pipeline.offloaded_peak();
    plan.entries.push_back({Category::offloaded, Space::host, range, layers});
    plan.entries.push_back(
        {Category::offload_ring, Space::device, range, ActivationOffload::kRanges * pipeline.slots()});
  }
  plan.entries.push_back({Category::messages, Space::device, model.message_bytes(shape), pipeline.inboxes()});
  plan.entries.push_back({Category::scratch, Space::device, pipeline.scratch_peak()});
  const int batches = shape.batch_sets * static_cast<int>(shape.micro_batches);
  const int slot_batches = shape.graphs ? pipeline.slots() : 0;
  plan.entries.push_back({Category::batches, Space::device, BatchBuffers::bytes(shape), batches + slot_batches});
  if (shape.device != Device::cpu)  // the data reader fills batches in host memory
    plan.entries.push_back({Category::batches, Space::host, BatchBuffers::bytes(shape), batches});
  for (const Communicator* group : model.groups.all()) {
    // On cuda, groups use NCCL's buffers, so only the control group needs staging buffers.
    if (shape.device != Device::cuda || group == &model.groups.world())
      plan.entries.push_back({Category::staging, Space::host, staging_bytes(group->size())});
  }
  plan.device = shape.device;
  plan.parameters = parameter_count(config);
  for (int param = 0; param < model.params.size(); ++param) plan.rank_parameters += model.params.slice(param).count();
  return plan;
}

}  // namespace

std::size_t MemoryPlan::bytes(Category category) const {
  return bytes(category, Space::device) + bytes(category, Space::host);
}

std::size_t MemoryPlan::total_bytes() const { return total_bytes(Space::device) + total_bytes(Space::host); }

std::size_t MemoryPlan::bytes(Category category, Space space) const {
  std::size_t bytes = 0;
  for (const PlanEntry& entry : entries)
    bytes += entry.category == category && space_of(entry) == space ? entry.total() : 0;
  return bytes;
}

std::size_t MemoryPlan::total_bytes(Space space) const {
  std::size_t bytes = 0;
  for (const PlanEntry& entry : entries) bytes += space_of(entry) == space ? entry.total() : 0;
  return bytes;
}

std::vector<PlanEntry> MemoryPlan::all(Category category) const {
  std::vector<PlanEntry> out;
  std::copy_if(entries.begin(), entries.end(), std::back_inserter(out),
               [&](const PlanEntry& entry) { return entry.category == category; });
  return out;
}

std::size_t MemoryPlan::index_of(Category category) const {
  auto has_category = [&](const PlanEntry& entry) { return entry.category == category; };
  require(std::count_if(entries.begin(), entries.end(), has_category) == 1,
          "the plan does not have exactly one entry of category ", static_cast<int>(category));
  return std::find_if(entries.begin(), entries.end(), has_category) - entries.begin();
}

MemoryPlan plan_passes(MetaStep& step, const GptConfig& config, const RunShape& shape) {
  RunShape two = shape;
  two.micro_batches = std::min<std::int64_t>(2, shape.micro_batches);
  BatchBuffers buffers(Device::meta, two);
  // Evaluation keeps one layer's activations in the slot, more than training if that offloads them, and it combines the
  // head's losses in scratch, which can take more than training's gradients if the hidden states are narrow.
  step.pipeline.evaluate(buffers.batch(0), buffers.losses(0));
  auto count = [&](int micro_batches) {
    const StepSchedule schedule = counting_schedule(shape.layout, micro_batches);
    step.optimizer.begin_step();
    return step.model.count([&] {
      step.pipeline.train(buffers, nullptr, &schedule);
      step.optimizer.traffic().end_part();
    });
  };
  // The first micro-batch overwrites the gradients. Every later one adds to them.
  const std::int64_t later = shape.micro_batches - 1;
  StepCounts one = count(1), both = later > 0 ? count(2) : StepCounts{};
  MemoryPlan plan = plan_of_passes(step, shape, config);
  add(plan, one, 1 - later);  // the sum of both calls is one + later * (both - one)
  add(plan, both, later);
  return plan;
}

void plan_update(MemoryPlan& plan, MetaStep& step, const RunShape& shape) {
  auto& [model, optimizer, pipeline, scratch] = step;
  // Mark all gradients as written, as backward does.
  model.stage.params([](Param& param, const ParamSpec&) { param.take_grad(); });
  const StepCounts update = model.count([&] { step.update(); });
  add(plan, update, 1);
  plan.update_flops = update.work.flops;
  plan.enlarge(Category::scratch, scratch.peak());
  if (const StateRing* ring = optimizer.ring(); ring != nullptr) {
    for (auto [space, bytes] : {std::pair(Space::device, ring->device_bytes()), {Space::host, ring->host_bytes()}})
      if (bytes > 0) plan.entries.push_back({Category::optimizer, space, bytes});
  }
  plan.entries.push_back({Category::step, Space::device, StepMemory::bytes()});
  if (const std::size_t pinned = StepMemory::host_bytes(shape.device); pinned > 0)
    plan.entries.push_back({Category::step, Space::host, pinned});
  if (shape.copies_saves)
    plan.entries.push_back({Category::save_copy, Space::host, save_copy_bytes(model.params, shape.saves_states)});
  if (const std::size_t copied = snapshot_bytes(model.params, shape.device); copied > 0)
    plan.entries.push_back({Category::snapshot, Space::host, copied});
}

MemoryPlan plan_training(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape) {
  MetaStep step(config, dropout, shape, rank_schedule(shape.layout, static_cast<int>(shape.micro_batches)));
  MemoryPlan plan = plan_passes(step, config, shape);
  plan_update(plan, step, shape);
  return plan;
}

}  // namespace mtl
