#include "engine/memory_plan.h"

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

/// Everything a run on meta needs: sizes add up in the arenas, counts in the stream.
struct MetaRun {
  Stream stream;
  Arena slot{Device::meta, "slot", 0};
  Arena scratch{Device::meta, "scratch", 0};
  ProcessGroups groups = single_process_groups();
  WeightGradQueue queue;
  StepState state;

  explicit MetaRun(int threads) : stream(Device::meta, threads) {}
  Ctx ctx(bool training) { return {stream, slot, scratch, groups, queue, &state, training}; }
};

MemoryPlan finish(const MetaRun& run, const ParamStore& params, const RunShape& shape, const GptConfig& config) {
  MemoryPlan plan;
  plan.value_bytes = params.value_bytes();
  plan.grad_bytes = params.grad_bytes();
  plan.moment_bytes = params.moment_bytes();
  plan.slot_bytes = run.slot.peak();
  plan.slots = 1;
  plan.scratch_bytes = run.scratch.peak();
  plan.batch_bytes = static_cast<std::size_t>(shape.micro_batches) * BatchBuffers::bytes(shape);
  plan.step = run.stream.counters();
  plan.parameters = config.parameter_count();
  return plan;
}

}  // namespace

MemoryPlan plan_training(const GptConfig& config, const DropoutOptions& dropout, const RunShape& shape) {
  MetaRun run(shape.threads);
  Stage stage = whole_model(config, dropout, shape.padded_vocab);
  ParamStore params(Device::meta, kPrecisionFp32, true, [&](const ParamVisitor& visit) { stage.params(visit); });
  Batch batch = meta_batch(shape);
  Ctx ctx = run.ctx(true);
  Chunk::Cache cache;
  stage.chunks[0].forward(ctx, batch.loss_weights, batch, cache);
  stage.chunks[0].backward(ctx, batch, cache);
  Counters one = run.stream.counters();
  auto others = static_cast<double>(shape.micro_batches - 1);
  run.stream.count(one.flops * others, one.bytes * others);
  Optimizer(params, {}, run.groups).step(run.stream, run.scratch, &run.state);
  return finish(run, params, shape, config);
}

MemoryPlan plan_evaluation(const GptConfig& config, const RunShape& shape) {
  MetaRun run(shape.threads);
  Stage stage = whole_model(config, {}, shape.padded_vocab);
  ParamStore params(Device::meta, kPrecisionFp32, false, [&](const ParamVisitor& visit) { stage.params(visit); });
  Batch batch = meta_batch(shape);
  Ctx ctx = run.ctx(false);
  stage.chunks[0].evaluate(ctx, batch.loss_weights, batch);
  return finish(run, params, shape, config);
}

}  // namespace mtl
