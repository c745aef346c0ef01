// Ends a wait that lasts longer than the deadline, and finds out why: it asks every rank, by letter, what that one is
// doing. Ranks that wait, or poll, answer at once; those that are stopped, hung, or gone do not, and are named.
//
// A rank that failed sends a letter, too, which interrupts the waits of all others.
//
// All ranks that wait for the same thing time out at about the same time. The lowest of them tells; the others give it
// a few seconds to end the job, and tell only when it did not.
#pragma once

#include <map>
#include <set>
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
  void check_deadline(const OperationProgress& at);

  /// Reports this rank's failure to all others.
  void send_failure();
  /// The first rank known to have failed; -1: none.
  int failed_rank() const { return failed_rank_; }
  std::string rank_name(int rank) const;

 private:
  void read_letters(const OperationProgress& at);
  std::string state(const OperationProgress& at) const;
  std::string table(const OperationProgress& at) const;
  std::string rank_line(int rank) const;
  void post_to_others(const std::string& text);

  MpiWire& wire_;
  double deadline_ = 600;
  std::vector<std::string> hosts_;
  const OperationLabel* waits_for_ = nullptr;
  double waits_since_ = 0, last_look_ = 0, last_letters_ = 0;
  std::map<int, std::string> answers_;  // by rank
  std::set<int> others_timed_out_;
  int failed_rank_ = -1;
};

}  // namespace mtl
