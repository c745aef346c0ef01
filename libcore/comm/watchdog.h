// Ends a wait that lasts longer than the deadline, and finds out why: it asks every rank, by letter, what that one is
// doing. Ranks that wait, or poll, answer at once; those that are stopped, hung, or gone do not, and are named.
//
// A rank that writes to storage also answers, through its progress thread, and says so. As long as all ranks answer and
// one of them makes progress with its writing, the wait continues, with a warning that names the slow storage.
//
// A rank that failed sends a letter, too, which interrupts the waits of all others.
//
// All ranks that wait for the same thing time out at about the same time. The lowest of them tells; the others give it
// a few seconds to end the job, and tell only when it did not.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/mpi_wire.h"

namespace mtl {

class Watchdog {
 public:
  explicit Watchdog(MpiWire& wire) : wire_(wire) {}
  Watchdog(const Watchdog&) = delete;

  /// Seconds that a rank may wait for one operation.
  void set_deadline(double seconds) { deadline_ = seconds; }
  double deadline() const { return deadline_; }
  /// Receives warnings about slow storage.
  void set_warning(std::function<void(const std::string&)> warn) { warn_ = std::move(warn); }
  /// The hosts of all ranks, for messages.
  void set_hosts(std::vector<std::string> hosts) { hosts_ = std::move(hosts); }

  /// Says, while it lives, that this rank waits.
  class Wait {
   public:
    Wait(Watchdog& watchdog, const OperationLabel& label);
    ~Wait() { watchdog_.waits_for_ = nullptr; }
    Wait(const Wait&) = delete;

   private:
    Watchdog& watchdog_;
  };

  /// Answers those who ask; to be called with every poll, looks for letters every 50 ms.
  void look(const OperationProgress& at);
  /// Throws CommunicationError with the table of who waits for what when the wait is over its deadline.
  /// Returns true when it asked the other ranks, and so may have completed messages, and the wait continues.
  bool check_deadline(const OperationProgress& at);

  /// The operation that this rank's device waits for, while the host continues; null: none. It counts from the call
  /// that first names it. The label may go after the call.
  void set_device_wait(const OperationLabel* label);
  /// Like check_deadline() for the device's wait, unless the host waits, too.
  void check_device_deadline(const OperationProgress& at);

  /// Reports this rank's failure to all others.
  void send_failure();
  /// The first rank known to have failed; -1: none.
  int failed_rank() const { return failed_rank_; }
  std::string rank_name(int rank) const;

 private:
  void read_letters(const OperationProgress& at);
  std::string answer(const OperationProgress& at) const;
  std::string state(const OperationProgress& at) const;
  bool waits_for_storage() const;
  void warn_of_storage();
  std::string table(const OperationProgress& at) const;
  std::string rank_line(int rank) const;
  void post_to_others(const std::string& text);

  MpiWire& wire_;
  double deadline_ = 600;
  std::vector<std::string> hosts_;
  const OperationLabel* waits_for_ = nullptr;
  double waits_since_ = 0, patience_since_ = 0;  // the deadline counts from the latter
  std::optional<OperationLabel> device_waits_for_;
  double device_since_ = 0, device_patience_since_ = 0;
  double last_look_ = 0, last_letters_ = 0, next_warning_ = 0;
  std::function<void(const std::string&)> warn_;
  struct Answer {
    bool writes;  // and makes progress
    std::string text;
  };
  std::map<int, Answer> answers_;           // by rank, to the last question
  std::map<int, double> others_timed_out_;  // when they asked
  int failed_rank_ = -1;
};

}  // namespace mtl
