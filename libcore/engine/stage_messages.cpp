#include "engine/stage_messages.h"

#include <algorithm>
#include <utility>

namespace mtl {

namespace {

/// Returns the channel of a send or receive.
Channel channel_of(ActionKind kind) {
  return kind == ActionKind::send_forward || kind == ActionKind::receive_forward ? Channel::activations
                                                                                 : Channel::gradients;
}

bool has_action(const StepSchedule& schedule, ActionKind kind, int chunk) {
  return std::any_of(schedule.actions.begin(), schedule.actions.end(),
                     [&](const Action& action) { return action.kind == kind && action.chunk == chunk; });
}

}  // namespace

StageMessages::StageMessages(const Stage& stage, Stream& stream, const ProcessGroups& groups,
                             const StepSchedule& schedule, std::size_t bytes)
    : stage_(stage), stream_(stream), groups_(groups), bytes_(bytes) {
  for (const auto& buffers_of : {&StageMessages::input_buffers, &StageMessages::gradient_buffers}) {
    for (int chunk = 0; chunk < std::ssize(stage.chunks); ++chunk) {
      const int first = buffers();
      inboxes_.push_back({.first = first, .sends = std::vector<Work>((this->*buffers_of)(schedule, chunk))});
    }
  }
  memory_ = Buffer(stream.device(), buffers() * bytes);
}

/// An input's buffer is in use until its micro-batch has left the chunk. One more receives the next input.
std::size_t StageMessages::input_buffers(const StepSchedule& schedule, int chunk) const {
  const std::size_t in_flight = max_in_flight(schedule.actions, chunk);
  if (stage_.places.turns_before(stage_.place(chunk))) return in_flight;
  return has_action(schedule, ActionKind::receive_forward, chunk) ? in_flight + 1 : 0;
}

/// Backward overwrites a gradient's buffer with the gradient to send, so that buffer is in use until the send is done,
/// during a later backward. The last chunk only has buffers to send from.
std::size_t StageMessages::gradient_buffers(const StepSchedule& schedule, int chunk) const {
  const bool is_used = has_action(schedule, ActionKind::receive_backward, chunk) ||
                       has_action(schedule, ActionKind::send_backward, chunk);
  return is_used ? schedule.unreceived + 1 : 0;
}

int StageMessages::buffers() const {
  return inboxes_.empty() ? 0 : inboxes_.back().first + static_cast<int>(inboxes_.back().sends.size());
}

StageMessages::Inbox& StageMessages::inbox_of(const Action& action) {
  const bool forward = action.kind == ActionKind::receive_forward || action.kind == ActionKind::forward;
  return inboxes_[(forward ? 0 : stage_.chunks.size()) + action.chunk];
}

int StageMessages::index_of(const Action& action) {
  const std::size_t buffers = inbox_of(action).sends.size();
  return buffers == 0 ? 0 : static_cast<int>(action.micro_batch % buffers);
}

Tensor StageMessages::buffer(const Action& action, std::int64_t tokens) {
  const Chunk& chunk = stage_.chunks[action.chunk];
  const std::size_t number = inbox_of(action).first + index_of(action);
  return memory_.tensor(chunk.hidden_dtype(), chunk.hidden_shape(groups_, tokens), number * bytes_);
}

void StageMessages::wait_for_send(const Action& action) { inbox_of(action).send_of(action).wait(stream_); }

/// Starts a receive unless it has started.
void StageMessages::post(const Action& action, std::int64_t tokens) {
  Inbox& inbox = inbox_of(action);
  if (inbox.posted == action.micro_batch) return;
  inbox.receive =
      groups_.over(Axis::pipeline).receive(stream_, buffer(action, tokens), peer_of(action), channel_of(action.kind));
  inbox.posted = action.micro_batch;
}

void StageMessages::start_receive(const Action& action, std::int64_t tokens) {
  if (inbox_of(action).send_of(action).done()) post(action, tokens);
}

Tensor StageMessages::receive(const Action& action, std::int64_t tokens) {
  wait_for_send(action);
  post(action, tokens);
  inbox_of(action).receive.wait(stream_);
  return buffer(action, tokens);
}

Work StageMessages::send(const Tensor& tensor, const Action& action) {
  Communicator& stages = groups_.over(Axis::pipeline);
  Work send = stages.send(stream_, tensor, peer_of(action), channel_of(action.kind));
  if (action.kind == ActionKind::send_backward) inbox_of(action).send_of(action) = send;
  stages.progress();  // the next action may take a long time
  return send;
}

void StageMessages::clear() {
  for (Inbox& inbox : inboxes_) {
    inbox.posted = -1;
    for (Work& send : inbox.sends) std::exchange(send, {}).wait(stream_);
  }
}

}  // namespace mtl
