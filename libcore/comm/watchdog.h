// Ends a wait that exceeds the deadline, and finds the cause: the watchdog asks every rank for its state, by letter.
// Ranks that wait or poll answer at once; stopped, hung or dead ranks do not, and the error names them.
//
// A rank that writes to storage also answers, through its progress thread. While all ranks answer and one of them makes
// progress with its writing, the wait continues, with a warning that names the slow storage.
//
// A failed rank also sends a letter, which interrupts the waits of all other ranks.
//
// All ranks that wait for the same operation time out at about the same time. The lowest one reports; the other ranks
// give it a few seconds to end the job, and report only if it has not.
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

  /// Sets the seconds that a rank may wait for one operation.
  void set_deadline(double seconds) { deadline_ = seconds; }
  /// Sets the receiver of warnings about slow storage.
  void set_warning(std::function<void(const std::string&)> warn) { warn_ = std::move(warn); }
  /// Sets the hosts of all ranks, for messages.
  void set_hosts(std::vector<std::string> hosts) { hosts_ = std::move(hosts); }

  /// While one exists, this rank waits for the operation.
  class Wait {
   public:
    Wait(Watchdog& watchdog, const OperationLabel& label);
    ~Wait() { watchdog_.waits_for_ = nullptr; }
    Wait(const Wait&) = delete;

   private:
    Watchdog& watchdog_;
  };

  /// Answers other ranks' questions. Call with every poll; reads letters at most every 50 ms.
  void answer_letters(const OperationProgress& at);
  /// If the wait exceeds the deadline, asks the other ranks for their states. Then throws CommunicationError with a
  /// table of them, or, if all ranks answered and one is writing, returns true: the wait continues, and messages may
  /// have completed. Otherwise returns false.
  bool check_deadline(const OperationProgress& at);

  /// Sets the operation that this rank's device waits for while the host continues; null: none. Its wait counts from
  /// the first call with this operation. The label need not outlive the call.
  void set_device_wait(const OperationLabel* label);
  /// Like check_deadline() for the device's wait, unless the host also waits.
  void check_device_deadline(const OperationProgress& at);

  /// Reports this rank's failure to all other ranks.
  void send_failure();
  /// The rank whose failure was received first, or this rank after send_failure(); -1: none.
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
  double polled_at_ = 0, letters_read_at_ = 0, next_warning_ = 0;
  std::function<void(const std::string&)> warn_;
  struct Answer {
    bool writes;  // to storage, with progress
    std::string text;
  };
  std::map<int, Answer> answers_;           // by rank, to the most recent question
  std::map<int, double> others_timed_out_;  // by rank: the time of its question
  int failed_rank_ = -1;
};

}  // namespace mtl
