#include "engine/pipeline.h"

#include <algorithm>

namespace mtl {

BatchBuffers::BatchBuffers(Device device, const RunShape& shape)
    : memory_(device, bytes(shape) * static_cast<std::size_t>(shape.micro_batches)) {
  Shape tokens{shape.micro_batch, shape.seq_length};
  std::size_t offset = 0;
  auto next = [&](DType dtype) {
    Tensor out = memory_.tensor(dtype, tokens, offset);
    offset += out.bytes();
    return out;
  };
  for (std::int64_t m = 0; m < shape.micro_batches; ++m) {
    Batch batch;
    batch.tokens = next(DType::i32);
    batch.positions = next(DType::i32);
    batch.labels = next(DType::i32);
    batch.loss_weights = next(DType::f32);
    if (shape.documents) batch.document_start = next(DType::i32);
    batches_.push_back(batch);
    losses_.push_back(next(DType::f32));
  }
}

std::size_t BatchBuffers::bytes(const RunShape& shape) {
  auto tokens = static_cast<std::size_t>(shape.micro_batch * shape.seq_length);
  return tokens * 4 * (shape.documents ? 6 : 5);
}

Pipeline::Pipeline(Stage& stage, Stream& stream, const ProcessGroups& groups, const MemoryPlan& plan)
    : stage_(stage), stream_(stream), groups_(groups), scratch_(stream.device(), "scratch", plan.scratch_bytes) {
  for (int slot = 0; slot < plan.slots; ++slot)
    slots_.emplace_back(stream.device(), cat("slot ", slot), plan.slot_bytes);
  caches_.resize(slots_.size());
}

Ctx Pipeline::context(Arena& slot, StepState* state, bool training) {
  return {stream_, slot, scratch_, groups_, weight_grads_, state, training};
}

void Pipeline::train(const std::vector<Action>& actions, const BatchBuffers& buffers, StepState* state,
                     std::int64_t first_sample, std::int64_t samples_apart) {
  for (const Action& action : actions) {
    auto slot = static_cast<std::size_t>(action.micro_batch) % slots_.size();  // 1F1B finishes in order: slots rotate
    const Batch& batch = buffers.batch(action.micro_batch);
    Chunk& chunk = stage_.chunks[static_cast<std::size_t>(action.chunk)];
    state->sample_base = first_sample + action.micro_batch * samples_apart;
    Ctx ctx = context(slots_[slot], state, true);
    if (action.kind == ActionKind::forward) {
      slots_[slot].clear();
      chunk.forward(ctx, buffers.losses(action.micro_batch), batch, caches_[slot]);
    } else {
      chunk.backward(ctx, batch, caches_[slot]);
    }
  }
}

void Pipeline::evaluate(const Batch& batch, Tensor losses, StepState* state) {
  slots_[0].clear();
  Ctx ctx = context(slots_[0], state, false);
  stage_.chunks[0].evaluate(ctx, losses, batch);
}

std::size_t Pipeline::slot_peak() const {
  std::size_t peak = 0;
  for (const Arena& slot : slots_) peak = std::max(peak, slot.peak());
  return peak;
}

}  // namespace mtl
