#include "engine/memory_plan.h"

#include "comm/groups.h"
#include "comm/staging.h"
#include "engine/pipeline.h"
#include "optim/optimizer.h"

namespace mtl {

Batch meta_batch(const RunShape& shape) {
  auto view = [&](DType dtype) { return Tensor(nullptr, dtype, {shape.micro_batch, shape.seq_length}); };
  Batch batch{view(DType::i32), view(DType::i32), view(DType::i32), view(DType::f32), {}};
  if (shape.documents) batch.document_start = view(DType::i32);
  return batch;
}

namespace {

/// Everything a rank has, on meta: sizes add up in the arenas, counts in the stream and the communicators.
struct MetaRun {
  Stream stream;
  ProcessGroups groups;
  Stage stage;
  ParamStore params;
  Pipeline pipeline;
  StepState state;

  MetaRun(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape, bool with_gradients)
      : stream(Device::meta, shape.threads),
        groups(meta_groups(shape.placement.grid, shape.placement.rank, shape.placement.shard_optimizer)),
        stage(make_stage(config, dropout, shape.placement, shape.padded_vocab)),
        params(
            Device::meta, kPrecisionFp32, with_gradients, [&](const ParamVisitor& visit) { stage.params(visit); },
            store_layout(groups, shape.bucket_elements)),
        pipeline(stage, stream, groups, shape.placement.actions(static_cast<int>(shape.micro_batches)), {}) {}

  double sent(const std::shared_ptr<Communicator>& group) const {
    const auto* meta = dynamic_cast<const MetaCommunicator*>(group.get());
    return meta == nullptr ? 0 : meta->sent_bytes();
  }
};

/// What the communicators of real ranks allocate.
std::size_t staging_of(const ProcessGroups& groups) {
  std::size_t bytes = 0;
  for (const auto& group :
       {groups.world, groups.tensor, groups.pipeline, groups.data, groups.context, groups.embedding})
    if (group->size() > 1) bytes += staging_bytes(group->size());
  return bytes;
}

MemoryPlan finish(const MetaRun& run, const RunShape& shape, const GptConfig& config) {
  MemoryPlan plan;
  plan.value_bytes = run.params.value_bytes();
  plan.grad_bytes = run.params.grad_bytes();
  plan.moment_bytes = run.params.moment_bytes();
  plan.slot_bytes = run.pipeline.slot_peak();
  plan.slots = run.pipeline.slots();
  plan.scratch_bytes = run.pipeline.scratch_peak();
  plan.batch_bytes = static_cast<std::size_t>(shape.micro_batches) * BatchBuffers::bytes(shape);
  plan.staging_bytes = staging_of(run.groups);
  plan.step = run.stream.counters();
  plan.sent = {run.sent(run.groups.tensor), run.sent(run.groups.pipeline), run.sent(run.groups.data),
               run.sent(run.groups.embedding)};
  plan.parameters = config.parameter_count();
  for (int param = 0; param < run.params.size(); ++param) plan.rank_parameters += run.params.slice(param).count();
  return plan;
}

}  // namespace

MemoryPlan plan_training(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape) {
  MetaRun run(config, dropout, shape, true);
  BatchBuffers buffers(Device::meta, shape);
  Optimizer optimizer(run.params, {}, run.stream, run.groups);
  optimizer.begin_step();
  run.pipeline.train(buffers, &run.state, 0, 0);
  optimizer.step(run.pipeline.scratch(), &run.state);
  return finish(run, shape, config);
}

MemoryPlan plan_evaluation(const GptConfig& config, const RunShape& shape) {
  MetaRun run(config, {}, shape, false);
  Batch batch = meta_batch(shape);
  run.pipeline.evaluate(batch, batch.loss_weights, &run.state);
  return finish(run, shape, config);
}

}  // namespace mtl
