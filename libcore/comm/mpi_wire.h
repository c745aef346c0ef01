// Point-to-point messages among the ranks of a job: the only code that calls MPI. Nothing here blocks but the start,
// the making of groups and the end; everything else is started and then polled, by one thread at a time.
//
// Two services: messages of known size inside a group, matched by tag, for tensors; and letters, short texts from any
// rank to any other over a communicator of their own, which arrive whatever else hangs.
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
  static constexpr int kMaxTag = 32767;                // what every MPI grants
  static constexpr std::size_t kMaxLetter = 1024;      // bytes; longer ones are cut
  static constexpr std::size_t kMaxMessage = 1 << 30;  // bytes; below INT_MAX

  /// MPI_Init_thread. Throws Error(failure) when MPI sees other ranks than the launcher announced.
  MpiWire(int rank, int world);
  ~MpiWire();
  MpiWire(const MpiWire&) = delete;
  int rank() const { return rank_; }
  int world() const { return world_; }
  /// Whether several threads may use the wire, one at a time; else only the one that made it.
  bool threads_may_take_turns() const { return threads_may_take_turns_; }

  /// For all ranks of the list, in the same order; a handle for messages.
  int make_group(const std::vector<int>& ranks);

  struct Message {
    int group, peer, tag;  // peer: a rank of the group
    void* data;
    std::size_t bytes;
    int* pending;                 // one more when it is started, one less when it is done; outlives the message
    const OperationLabel* label;  // what it is part of; outlives the message
  };
  void send(const Message& message);
  void receive(const Message& message);
  /// Moves everything on; how many messages were completed. Throws CommunicationError when one had another size.
  int poll();
  /// For messages of other groups than `kept` nothing waits any more: cancels those receives that no message has
  /// reached. The rest completes with poll(), whatever its size.
  void abandon_messages(int kept);

  /// When a message of a rank last came in, and as part of what; negative: never.
  struct Heard {
    double seconds = -1;
    OperationLabel label;
  };
  const Heard& heard(int rank) const { return heard_[rank]; }

  void post(int to, std::string text);
  std::optional<Letter> next_letter();

  /// MPI_Finalize; nothing may be pending anywhere.
  void finalize();
  /// Ends the whole job with this exit status.
  [[noreturn]] void abort(int code);

 private:
  struct Mpi;
  int rank_, world_;
  bool threads_may_take_turns_ = false;
  std::vector<Heard> heard_;
  std::unique_ptr<Mpi> mpi_;
};

}  // namespace mtl
