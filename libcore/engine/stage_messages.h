// A stage's messages: the buffers in which its chunks receive hidden states and gradients, and the sends and receives
// in progress.
#pragma once

#include <vector>

#include "comm/groups.h"
#include "device/memory.h"
#include "engine/stage.h"
#include "layout/schedule.h"

namespace mtl {

class StageMessages {
 public:
  /// Allocates buffers of `bytes` bytes each for the messages in `schedule`. The caller must keep `stage`, `stream` and
  /// `groups` alive.
  StageMessages(const Stage& stage, Stream& stream, const ProcessGroups& groups, const StepSchedule& schedule,
                std::size_t bytes);

  /// Returns the number of buffers.
  int buffers() const;
  /// Returns the buffer of a micro-batch's input in a chunk, for a forward or its receive, or of its gradients, for any
  /// other action. index_of() returns its index among the chunk's buffers of that kind; 0 if there are none. `tokens`
  /// is the number of tokens in a micro-batch.
  Tensor buffer(const Action& action, std::int64_t tokens);
  int index_of(const Action& action);
  /// Waits until the contents of the action's buffer have been sent, so that it can be overwritten.
  void wait_for_send(const Action& action);

  /// Starts a receive ahead of receive(). Does nothing if the contents of its buffer are still being sent, because
  /// waiting for that send could deadlock.
  void start_receive(const Action& action, std::int64_t tokens);
  /// Returns the received message.
  Tensor receive(const Action& action, std::int64_t tokens);
  /// Starts a send. Gradients must be in the action's buffer; wait_for_send() waits for them.
  Work send(const Tensor& tensor, const Action& action);
  /// Waits for all sends of gradients. Must be called between steps.
  void clear();

 private:
  /// Buffers in which a chunk receives hidden states, or their gradients, from another stage or as a copy from another
  /// chunk of its stage. Micro-batches take turns using the buffers, so that the next message can arrive while the
  /// current one is in use. Gradients are also sent from these buffers; the last chunk only sends.
  struct Inbox {
    int first = 0;                 // index of the first buffer in memory_
    std::vector<Work> sends = {};  // by buffer: the send that must be done before the buffer is overwritten
    int posted = -1;               // micro-batch of the latest receive; -1: none
    Work receive = {};             // the latest receive

    Work& send_of(const Action& action) { return sends[action.micro_batch % sends.size()]; }
  };

  /// Return how many buffers a chunk needs.
  std::size_t input_buffers(const StepSchedule& schedule, int chunk) const;
  std::size_t gradient_buffers(const StepSchedule& schedule, int chunk) const;
  Inbox& inbox_of(const Action& action);
  void post(const Action& action, std::int64_t tokens);
  int peer_of(const Action& action) const { return peer_stage(action, stage_.places, stage_.number); }

  const Stage& stage_;
  Stream& stream_;
  const ProcessGroups& groups_;
  std::size_t bytes_;
  std::vector<Inbox> inboxes_;  // by chunk: of inputs, then of gradients
  Buffer memory_;               // all inboxes, one after another
};

}  // namespace mtl
