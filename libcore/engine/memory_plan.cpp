#include "engine/memory_plan.h"

#include <algorithm>

#include "comm/groups.h"
#include "comm/staging.h"
#include "engine/pipeline.h"
#include "nn/model_params.h"
#include "optim/optimizer.h"

namespace mtl {

Batch meta_batch(const RunShape& shape) {
  auto view = [&](DType dtype) { return Tensor(nullptr, dtype, {shape.micro_batch, shape.seq_length}); };
  Tensor samples(nullptr, DType::i64, {shape.micro_batch});
  Batch batch{samples, view(DType::i32), view(DType::i32), view(DType::i32), view(DType::f32), {}};
  if (shape.documents) batch.document_start = view(DType::i32);
  return batch;
}

namespace {

struct StepCounts {
  Counters work;
  SentBytes sent;
};

/// What a step of one kind counts, and how often.
void add(MemoryPlan& plan, const StepCounts& counts, double times) {
  plan.step.flops += times * counts.work.flops;
  plan.step.bytes += times * counts.work.bytes;
  plan.sent.tensor += times * counts.sent.tensor;
  plan.sent.pipeline += times * counts.sent.pipeline;
  plan.sent.data += times * counts.sent.data;
  plan.sent.embedding += times * counts.sent.embedding;
}

/// A rank's part of the model and its groups, on meta: operators count in the stream, communication in the groups.
struct MetaModel {
  Stream stream;
  ProcessGroups groups;
  Stage stage;
  ParamStore params;
  StepState state;

  MetaModel(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape,
            std::optional<std::vector<StateSpec>> states)
      : stream(Device::meta, shape.threads),
        groups(meta_groups(shape.layout.grid, shape.layout.rank)),
        stage(make_stage(config, dropout, shape.layout, shape.padded_vocab)),
        params(
            Device::meta, kPrecisionFp32, std::move(states), [&](const ParamVisitor& visit) { stage.params(visit); },
            shape.layout) {}

  /// Counts of what `run` does.
  template <class Run>
  StepCounts count(const Run& run) {
    stream.reset_counters();
    SentBytes before = sent();
    run();
    SentBytes now = sent();
    return {stream.counters(),
            {now.tensor - before.tensor, now.pipeline - before.pipeline, now.data - before.data,
             now.embedding - before.embedding}};
  }

 private:
  SentBytes sent() const {
    auto by = [](const Communicator& group) {
      const auto* meta = dynamic_cast<const MetaCommunicator*>(&group);
      return meta == nullptr ? 0 : meta->sent_bytes();
    };
    return {by(groups.over(Axis::tensor)), by(groups.over(Axis::pipeline)), by(groups.over(kReplicaAxes)),
            by(groups.tied())};
  }
};

std::size_t hidden_bytes(const GptConfig& config, const RunShape& shape) {
  std::int64_t rows = shape.micro_batch * shape.seq_length;
  if (shape.layout.sequence_parallel) rows /= shape.layout.size(Axis::tensor);
  auto bytes = static_cast<std::size_t>(rows * config.hidden_size) * sizeof(float);
  return (bytes + 63) / 64 * 64;
}

Pipeline make_pipeline(MetaModel& model, const GptConfig& config, const RunShape& shape) {
  MemoryPlan plan;
  plan.hidden_bytes = hidden_bytes(config, shape);
  return {model.stage, model.stream, model.groups, rank_schedule(shape.layout, static_cast<int>(shape.micro_batches)),
          plan};
}

MemoryPlan finish(const MetaModel& model, const Pipeline& pipeline, const RunShape& shape, const GptConfig& config) {
  MemoryPlan plan;
  for (std::size_t row = 0; row < model.params.table().size(); ++row) {
    Role role = model.params.table()[row].role;
    auto& bytes = role == Role::values      ? plan.value_bytes
                  : role == Role::gradients ? plan.grad_bytes
                                            : plan.state_bytes;
    bytes += model.params.bytes(row);
  }
  plan.slot_bytes = pipeline.slot_peak();
  plan.slots = pipeline.slots();
  plan.hidden_bytes = hidden_bytes(config, shape);
  plan.inbox_bytes = pipeline.inbox_bytes();
  plan.scratch_bytes = pipeline.scratch_peak();
  plan.batch_bytes = static_cast<std::size_t>(shape.batch_sets * shape.micro_batches) * BatchBuffers::bytes(shape);
  for (const Communicator* group : model.groups.all()) plan.staging_bytes += staging_bytes(group->size());
  plan.parameters = parameter_count(config);
  for (int param = 0; param < model.params.size(); ++param) plan.rank_parameters += model.params.slice(param).count();
  return plan;
}

}  // namespace

MemoryPlan plan_passes(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape) {
  MetaModel model(config, dropout, shape, AdamW::states());
  Pipeline pipeline = make_pipeline(model, config, shape);
  RunShape two = shape;
  two.micro_batches = std::min<std::int64_t>(2, shape.micro_batches);
  BatchBuffers buffers(Device::meta, two);
  auto count = [&](int micro_batches) {
    StepSchedule schedule = rank_schedule(shape.layout, micro_batches);
    model.params.begin_step();
    return model.count([&] { pipeline.train(buffers, nullptr, &schedule); });
  };
  // The first micro-batch overwrites gradients, all others add to them.
  auto later = static_cast<double>(shape.micro_batches - 1);
  StepCounts one = count(1), both = later > 0 ? count(2) : StepCounts{};
  MemoryPlan plan = finish(model, pipeline, shape, config);
  add(plan, one, 1 - later);
  add(plan, both, later);
  return plan;
}

void plan_update(MemoryPlan& plan, const GptConfig& config, const RunShape& shape) {
  MetaModel model(config, {}, shape, AdamW::states());
  Optimizer optimizer(model.params, {}, model.stream, model.groups);
  Arena scratch(Device::meta, "scratch", 0);
  model.stage.params([](Param& param, const ParamSpec&) { param.take_grad(); });  // as if backward had written them
  add(plan, model.count([&] { optimizer.step(scratch, &model.state); }), 1);
  plan.scratch_bytes = std::max(plan.scratch_bytes, scratch.peak());
}

MemoryPlan plan_training(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape) {
  MemoryPlan plan = plan_passes(config, dropout, shape);
  plan_update(plan, config, shape);
  return plan;
}

MemoryPlan plan_evaluation(const GptConfig& config, const RunShape& shape) {
  MetaModel model(config, {}, shape, std::nullopt);
  Pipeline pipeline = make_pipeline(model, config, shape);
  Batch batch = meta_batch(shape);
  StepCounts counts = model.count([&] { pipeline.evaluate(batch, batch.loss_weights); });
  MemoryPlan plan = finish(model, pipeline, shape, config);
  add(plan, counts, 1);
  return plan;
}

}  // namespace mtl
