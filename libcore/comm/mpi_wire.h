// Point-to-point messages between the ranks of a job. No other code calls MPI. Functions that initialize MPI, create
// groups or finalize MPI block. All other operations start without blocking and must then be polled. Only one thread
// may use the wire at a time.
//
// The wire has two services:
// - Messages carry tensors. They have a known size, stay within a group, and are matched by tag.
// - Control messages are short texts between any two ranks of the job. They use a separate MPI communicator and
//   arrive even if all groups hang.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/operation_label.h"

namespace mtl {

struct ControlMessage {
  int from = 0;  // a rank of the job
  std::string text;
};

class MpiWire {
 public:
  static constexpr int kMaxTag = 32767;                  // largest tag that every MPI supports
  static constexpr std::size_t kMaxControlBytes = 1024;  // we truncate longer control messages

  /// Calls MPI_Init_thread. Throws Error(failure) if MPI's rank or world size differs from the launcher's.
  MpiWire(int rank, int world);
  ~MpiWire();
  MpiWire(const MpiWire&) = delete;
  int rank() const { return rank_; }
  int world() const { return world_; }
  /// Returns true if threads may take turns using the wire. Otherwise only the thread that created it may use it.
  bool threads_may_take_turns() const { return threads_may_take_turns_; }

  /// Creates a group and returns its handle. Collective over `ranks`.
  int make_group(const std::vector<int>& ranks);

  struct Message {
    int group, peer, tag;  // peer is a group rank
    void* data;
    std::size_t bytes;
    int* pending;                 // incremented at the start, decremented at completion; must outlive the message
    const OperationLabel* label;  // must outlive the message
  };
  void send(const Message& message);
  void receive(const Message& message);
  /// Advances all messages. Returns how many have completed. Throws CommunicationError if a received message has an
  /// unexpected size.
  int poll();
  /// Abandons messages in all groups except `kept`. Cancels receives that have not been matched yet. All other
  /// abandoned messages complete in poll(), which does not check their sizes.
  void abandon_messages(int kept);

  /// The last message received from a rank: its operation and when it arrived. `seconds` is negative if none has
  /// arrived yet.
  struct LastMessage {
    double seconds = -1;
    OperationLabel label;
  };
  const LastMessage& last_message(int rank) const { return last_messages_[rank]; }

  /// Starts sending a control message to a rank of the job.
  void post(int to, std::string text);
  /// Returns the next control message, or nullopt if none has arrived.
  std::optional<ControlMessage> next_control_message();

  /// Calls MPI_Finalize. No rank may have pending messages.
  void finalize();
  /// Aborts the entire job with exit status `code`.
  [[noreturn]] void abort(int code);

 private:
  struct Mpi;
  int rank_, world_;
  bool threads_may_take_turns_ = false;
  std::vector<LastMessage> last_messages_;
  std::unique_ptr<Mpi> mpi_;
};

}  // namespace mtl
