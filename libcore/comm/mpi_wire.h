// Point-to-point messages between the ranks of a job: the only code that calls MPI. Only initialization, the creation
// of groups and finalization block; everything else is started and then polled, by one thread at a time.
//
// Two services: messages of known size inside a group, matched by tag, for tensors; and letters, short control messages
// from any rank to any other over a communicator of their own, which arrive even if all groups hang.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/operation_label.h"

namespace mtl {

struct Letter {
  int from = 0;  // a rank of the job
  std::string text;
};

class MpiWire {
 public:
  static constexpr int kMaxTag = 32767;            // every MPI supports it
  static constexpr std::size_t kMaxLetter = 1024;  // bytes; longer letters are truncated

  /// Calls MPI_Init_thread. Throws Error(failure) if MPI's rank or world size differs from the launcher's.
  MpiWire(int rank, int world);
  ~MpiWire();
  MpiWire(const MpiWire&) = delete;
  int rank() const { return rank_; }
  int world() const { return world_; }
  /// True if several threads may use the wire, one at a time; otherwise only the thread that created it may.
  bool threads_may_take_turns() const { return threads_may_take_turns_; }

  /// Collective over `ranks`: creates a group and returns its handle.
  int make_group(const std::vector<int>& ranks);

  struct Message {
    int group, peer, tag;  // peer: a rank of the group
    void* data;
    std::size_t bytes;
    int* pending;                 // incremented when the message starts, decremented when it completes; outlives it
    const OperationLabel* label;  // of the operation; outlives the message
  };
  void send(const Message& message);
  void receive(const Message& message);
  /// Progresses all messages; returns the number of those that completed. Throws CommunicationError if a received
  /// message is not of the expected size.
  int poll();
  /// Abandons the messages of all groups except `kept`: cancels unmatched receives. The rest complete in poll(),
  /// whatever their sizes.
  void abandon_messages(int kept);

  /// Arrival and operation of the last message from a rank; seconds is negative before the first.
  struct LastMessage {
    double seconds = -1;
    OperationLabel label;
  };
  const LastMessage& last_message(int rank) const { return last_messages_[rank]; }

  /// Starts sending a letter to a rank of the job.
  void post(int to, std::string text);
  /// Returns the next letter that has arrived, if any.
  std::optional<Letter> next_letter();

  /// Calls MPI_Finalize; no message may be pending on any rank.
  void finalize();
  /// Aborts the whole job with this exit status.
  [[noreturn]] void abort(int code);

 private:
  struct Mpi;
  int rank_, world_;
  bool threads_may_take_turns_ = false;
  std::vector<LastMessage> last_messages_;
  std::unique_ptr<Mpi> mpi_;
};

}  // namespace mtl
