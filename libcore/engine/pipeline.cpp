#include "engine/pipeline.h"

#include <algorithm>
#include <utility>

#include "base/enum_index.h"
#include "device/copy.h"
#include "kernels/cross_entropy.h"

namespace mtl {

namespace {

/// Returns what an action is part of, for messages about faults.
const char* part_name(ActionKind kind) {
  constexpr const char* names[] = {"forward", "backward", "weight gradients", "forward",
                                   "forward", "backward", "backward"};
  return names[enum_index(kind)];
}

/// Returns the name of an action's phase in profiles.
const char* phase_of(ActionKind kind) {
  constexpr const char* names[] = {"forward", "backward", "weight gradients", "receive", "send", "receive", "send"};
  return names[enum_index(kind)];
}

}  // namespace

Pipeline::Pipeline(Stage& stage, Stream& stream, const ProcessGroups& groups, StepSchedule schedule,
                   const MemoryPlan& plan, ParamOwner* params, const StepState* step)
    : stage_(stage),
      stream_(stream),
      groups_(groups),
      schedule_(std::move(schedule)),
      params_(params),
      step_(step),
      messages_(stage, stream, groups, schedule_, plan.entry(Category::messages).bytes),
      scratch_(stream.device(), "scratch", plan.entry(Category::scratch).bytes) {
  const std::vector<PlanEntry> of_chunks = plan.all(Category::slots);
  std::vector<int> in_flight;  // by chunk
  std::size_t bytes = 0;
  for (std::size_t chunk = 0; chunk < stage.chunks.size(); ++chunk) {
    in_flight.push_back(max_in_flight(schedule_.actions, static_cast<int>(chunk)));
    bytes += in_flight.back() * of_chunks.at(chunk).bytes;
  }
  slot_memory_ = Buffer(stream.device(), bytes);
  std::size_t begin = 0;
  for (std::size_t chunk = 0; chunk < stage.chunks.size(); ++chunk) {
    chunk_slots_.emplace_back();
    for (int i = 0; i < in_flight[chunk]; ++i) {
      const std::size_t number = slots_.size(), slot_bytes = of_chunks[chunk].bytes;
      chunk_slots_.back().push_back(number);
      slots_.push_back({.memory = Arena(stream.device(), cat("slot ", number), slot_memory_, begin, slot_bytes),
                        .cache = stage.chunks[chunk].make_cache()});
      begin += slot_bytes;
    }
  }
  if (offloaded_layers() > 0) make_offloads(plan.entry(Category::offloaded).bytes);
}

void Pipeline::make_offloads(std::size_t range_bytes) {
  const std::size_t ring_bytes = ActivationOffload::kRanges * range_bytes;
  copies_ = std::make_unique<Stream>(stream_.device());
  offload_memory_ = Buffer(stream_.device(), offloaded_layers() * range_bytes, Space::host);
  ring_memory_ = Buffer(stream_.device(), slots_.size() * ring_bytes);
  std::size_t offset = 0;
  for (std::size_t chunk = 0; chunk < chunk_slots_.size(); ++chunk) {
    const int layers = stage_.chunks[chunk].offloaded_layers();
    for (std::size_t slot : chunk_slots_[chunk]) {
      slots_[slot].offload = std::make_unique<ActivationOffload>(
          *copies_, layers, range_bytes, ActivationOffload::Part{ring_memory_, slot * ring_bytes},
          ActivationOffload::Part{offload_memory_, offset});
      offset += layers * range_bytes;
    }
  }
}

Ctx Pipeline::context(Slot& slot, bool training) {
  return {.stream = stream_,
          .slot = &slot.memory,
          .scratch = scratch_,
          .groups = groups_,
          .training = training,
          .params = params_,
          .step = step_,
          .offload = slot.offload.get()};
}

/// Returns an action's slot. A chunk's micro-batches finish in the order they start, so they can use its slots in turn.
Pipeline::Slot& Pipeline::slot_of(const Action& action) {
  const std::vector<std::size_t>& slots = chunk_slots_[action.chunk];
  return slots_[slots[action.micro_batch % slots.size()]];
}

/// Empties a slot for the next micro-batch.
void Pipeline::clear_slot(Slot& slot) {
  std::exchange(slot.send, {}).wait(stream_);
  slot.memory.clear();
  slot.input = slot.output = slot.dout = slot.dinput = {};
}

/// Starts the first receive after actions[index], so that the message arrives while actions[index] computes.
void Pipeline::start_next_receive(const StepSchedule& schedule, std::size_t index, const BatchBuffers& buffers) {
  if (schedule.actions[index].kind > ActionKind::weight) return;  // communication computes nothing
  const auto next = std::find_if(schedule.actions.begin() + static_cast<std::ptrdiff_t>(index), schedule.actions.end(),
                                 [](const Action& action) { return is_receive(action.kind); });
  if (next != schedule.actions.end()) messages_.start_receive(*next, buffers.batch(next->micro_batch).tokens.numel());
}

void Pipeline::use_graphs(StepGraphs& graphs, ParamTraffic& traffic, const RunShape& shape) {
  graphs_ = &graphs;
  traffic_ = &traffic;
  RunShape slot_shape = shape;
  slot_shape.micro_batches = slots();
  slot_batches_.emplace(stream_.device(), slot_shape);
}

void Pipeline::train(const BatchBuffers& buffers, OperationProgress* progress, const StepSchedule* step_schedule,
                     Tensor loss_sums) {
  const StepSchedule& schedule = step_schedule == nullptr ? schedule_ : *step_schedule;
  for (int chunk = 0; chunk < std::ssize(stage_.chunks); ++chunk)
    require(max_in_flight(schedule.actions, chunk) <= slots_of(chunk), "a step keeps more micro-batches than planned");
  int last = 0;
  for (const Action& action : schedule.actions) last = std::max(last, action.micro_batch);
  clear_slots();
  for (std::size_t begin = 0, end = 0; begin < schedule.actions.size(); begin = end) {
    const Action& action = schedule.actions[begin];
    const bool is_pass = begins_pass(schedule, begin);
    end = begin + (is_pass ? 2 : 1);
    Slot& slot = slot_of(action);
    const char* name = is_pass ? "forward and backward" : part_name(action.kind);
    const auto report = [&](const char* what) {
      if (progress != nullptr) progress->action = what;
    };
    if (progress != nullptr) {
      progress->micro_batch = action.micro_batch;
      progress->chunk = stage_.chunks.size() > 1 ? action.chunk : -1;
    }
    report(name);
    const PartBody run_part = [&](const Batch& batch, Tensor losses) {
      for (std::size_t i = begin; i < end; ++i) {
        report(part_name(schedule.actions[i].kind));
        Ctx ctx = context(slot, true);
        ctx.ends_gradients = schedule.ends_gradients[i];
        ctx.defers_weights = schedule.defers_weights;
        run(schedule.actions[i], slot, ctx, batch, losses, loss_sums);
      }
      report(name);
    };
    start_next_receive(schedule, begin, buffers);
    prepare(action, slot, buffers.batch(action.micro_batch));
    if (graphs_ != nullptr) {
      run_as_graph(action, part_of(schedule.actions[end - 1], is_pass, action.micro_batch == last), buffers, run_part);
    } else {
      run_part(buffers.batch(action.micro_batch), buffers.losses(action.micro_batch));
    }
    if (action.kind == ActionKind::backward && turns_before(action))
      pass_gradient(action, slot, buffers.batch(action.micro_batch));
  }
  clear_slots();
  if (progress != nullptr) progress->action = nullptr;
}

/// Returns true if actions[index] and the next one are a forward and a backward of the whole model on a micro-batch,
/// which graphs run as one part. Nothing needs to be prepared between them, because there are no messages.
bool Pipeline::begins_pass(const StepSchedule& schedule, std::size_t index) const {
  const Action& action = schedule.actions[index];
  const ChunkRange& range = stage_.chunks[action.chunk].range();
  return graphs_ != nullptr && range.has_embedding && range.has_head && action.kind == ActionKind::forward &&
         schedule.actions.at(index + 1) == Action{ActionKind::backward, action.micro_batch, action.chunk};
}

StepGraphs::Part Pipeline::part_of(const Action& action, bool is_pass, bool is_last) {
  const auto buffer = [&](ActionKind kind) { return messages_.index_of({kind, action.micro_batch, action.chunk}); };
  return {.action = static_cast<int>(action.kind),
          .chunk = action.chunk,
          .slot = static_cast<int>(&slot_of(action) - slots_.data()),
          .input = buffer(ActionKind::forward),
          .gradient = buffer(ActionKind::backward),
          .is_first = action.micro_batch == 0,
          .is_last = is_last,
          .is_pass = is_pass};
}

/// Runs a part, which begins with `action`, as one of the step's graphs. It reads the micro-batch from its slot's batch
/// buffers. A forward first copies the micro-batch there.
void Pipeline::run_as_graph(const Action& action, StepGraphs::Part part, const BatchBuffers& buffers,
                            const PartBody& run_part) {
  Slot& slot = slot_of(action);
  if (action.kind == ActionKind::forward) slot_batches_->copy(stream_, part.slot, buffers, action.micro_batch);
  const auto body = [&] { run_part(slot_batches_->batch(part.slot), slot_batches_->losses(part.slot)); };
  const bool communicates = action.kind > ActionKind::weight;
  if (communicates || !traffic_->captures_micro_batch(part.is_first, part.is_last)) return body();
  part.gathered = traffic_->end_part().gathered;
  ParamTraffic::PartState state;
  const auto body_to_end = [&] {
    body();
    state = traffic_->end_part();
  };
  if (graphs_->run(stream_, part, body_to_end)) {
    part_outputs_[part] = {.output = slot.output, .dinput = slot.dinput, .state = state};
  } else {
    restore_outputs(part, slot);
  }
}

/// Must be called after a launch. Restores the host state that the action produced during its capture.
void Pipeline::restore_outputs(const StepGraphs::Part& part, Slot& slot) {
  const PartOutputs& outputs = part_outputs_.at(part);
  const auto kind = static_cast<ActionKind>(part.action);
  if (kind == ActionKind::forward) slot.output = outputs.output;
  if (kind == ActionKind::backward) slot.dinput = outputs.dinput;
  traffic_->restore(outputs.state);
  if (kind == ActionKind::forward || !part.is_first || traffic_->captures_micro_batch(false, true)) return;
  // The last micro-batch runs without graphs. Mark the gradients as written, so that it adds to the first micro-batch's
  // gradients instead of overwriting them.
  stage_.chunks[part.chunk].params([](Param& param, const ParamSpec&) { param.take_grad(); });
}

/// Waits for all sends, and empties all slots.
void Pipeline::clear_slots() {
  for (Slot& slot : slots_) clear_slot(slot);
  messages_.clear();
}

/// Copies the gradient that a backward has computed to the previous chunk, which is on the same stage.
void Pipeline::pass_gradient(const Action& action, const Slot& slot, const Batch& batch) {
  const Action previous{action.kind, action.micro_batch, action.chunk - 1};
  messages_.wait_for_send(previous);
  const Tensor dout = slot_of(previous).dout = messages_.buffer(previous, batch.tokens.numel());
  copy_on_device(stream_, dout, slot.dinput);
}

/// Waits until the memory that a forward or backward overwrites has been sent. Takes a forward's input from the
/// previous chunk if that is on the same stage. Not part of the action, because a capture cannot wait for earlier work,
/// and because the previous chunk's slot may be another one when the graph is launched again.
void Pipeline::prepare(const Action& action, Slot& slot, const Batch& batch) {
  const ChunkRange& range = stage_.chunks[action.chunk].range();
  const bool turns = turns_before(action);
  if (action.kind == ActionKind::forward && (range.has_embedding || turns)) clear_slot(slot);
  if (action.kind == ActionKind::forward && turns) {
    slot.input = messages_.buffer(action, batch.tokens.numel());
    copy_on_device(stream_, slot.input, slot_of({action.kind, action.micro_batch, action.chunk - 1}).output);
  }
  if (action.kind != ActionKind::backward) return;
  // Backward frees the output. It must have been sent, because its gradient has arrived, so this does not block.
  std::exchange(slot.send, {}).wait(stream_);
  if (!range.has_head || range.has_embedding) return;
  messages_.wait_for_send(action);
  slot.dout = messages_.buffer(action, batch.tokens.numel());
}

void Pipeline::run(const Action& action, Slot& slot, Ctx& ctx, const Batch& batch, Tensor losses, Tensor loss_sums) {
  const Chunk& chunk = stage_.chunks[action.chunk];
  const ProfileRange range(stream_, ProfileKind::phase, phase_of(action.kind), action.micro_batch);
  switch (action.kind) {
    case ActionKind::receive_forward:
      clear_slot(slot);
      slot.input = messages_.receive(action, batch.tokens.numel());
      return;
    case ActionKind::forward:
      slot.output = chunk.forward(ctx, slot.input, batch, slot.cache);
      return;
    case ActionKind::send_forward:
      slot.send = messages_.send(slot.output, action);
      return;
    case ActionKind::receive_backward:
      slot.dout = messages_.receive(action, batch.tokens.numel());
      return;
    case ActionKind::backward:
      slot.dinput = chunk.backward(ctx, slot.dout, losses, batch, slot.cache);
      if (chunk.range().has_head && loss_sums.exists()) {
        sum_losses(stream_, loss_sums.rows(0, 1), losses, batch.loss_weights, GradMode::accumulate);
        if (batch.z_loss.losses.exists())
          sum_losses(stream_, loss_sums.rows(1, 1), batch.z_loss.losses, batch.loss_weights, GradMode::accumulate);
      }
      return;
    case ActionKind::weight:
      return chunk.weights(ctx, slot.cache);
    case ActionKind::send_backward:
      messages_.send(slot.dinput, action);
      return;
  }
}

void Pipeline::evaluate(const Batch& batch, Tensor losses) {
  clear_slots();
  for (std::size_t c = 0; c < stage_.chunks.size(); ++c) {
    const Chunk& chunk = stage_.chunks[c];
    const auto action = [&](ActionKind kind) {
      return Action{.kind = kind, .micro_batch = 0, .chunk = static_cast<int>(c)};
    };
    Slot& slot = slots_[chunk_slots_[c][0]];
    Ctx ctx = context(slot, false);
    const Place place = stage_.place(static_cast<int>(c));
    if (stage_.places.turns_before(place))
      slot.input = slots_[chunk_slots_[c - 1][0]].output;
    else if (!chunk.range().has_embedding)
      slot.input = messages_.receive(action(ActionKind::receive_forward), batch.tokens.numel());
    slot.output = chunk.evaluate(ctx, slot.input, losses, batch, slot.cache);
    if (!chunk.range().has_head && !stage_.places.turns_after(place))
      slot.send = messages_.send(slot.output, action(ActionKind::send_forward));
  }
}

int Pipeline::offloaded_layers() const {
  std::size_t layers = 0;
  for (std::size_t chunk = 0; chunk < chunk_slots_.size(); ++chunk)
    layers += chunk_slots_[chunk].size() * stage_.chunks[chunk].offloaded_layers();
  return static_cast<int>(layers);
}

std::size_t Pipeline::offloaded_peak() const {
  std::size_t peak = 0;
  for (const Slot& slot : slots_) peak = std::max(peak, slot.offload == nullptr ? 0 : slot.offload->range_peak());
  return peak;
}

std::size_t Pipeline::slot_peak(int chunk) const {
  std::size_t peak = 0;
  for (std::size_t slot : chunk_slots_[chunk]) peak = std::max(peak, slots_[slot].memory.peak());
  return peak;
}

}  // namespace mtl
