// The watchdog ends a wait that exceeds the deadline, and finds the cause. It sends every rank a control message that
// asks for its state. Ranks that wait or poll answer immediately. Stopped, hung or dead ranks do not answer, and the
// error message lists them.
//
// A rank that is writing to storage also answers, from its progress thread. As long as all ranks answer and at least
// one of them makes progress with writing, the wait continues, and the watchdog warns which files are being written.
//
// When a rank fails, it sends a control message that interrupts waits on all other ranks.
//
// All ranks that wait for the same operation time out at about the same time. The lowest of them reports the error. The
// others give it a few seconds to end the job, and report the error only if the job is still running after that.
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

  /// Sets how long, in seconds, a rank may wait for one operation.
  void set_deadline(double seconds) { deadline_ = seconds; }
  /// Sets a function to call with warnings about slow storage.
  void set_warning(std::function<void(const std::string&)> warn) { warn_ = std::move(warn); }
  /// Sets all ranks' host names, for messages.
  void set_hosts(std::vector<std::string> hosts) { hosts_ = std::move(hosts); }

  /// While a Wait exists, this rank is waiting for the operation with this label.
  class Wait {
   public:
    Wait(Watchdog& watchdog, const OperationLabel& label);
    ~Wait() { watchdog_.waits_for_ = nullptr; }
    Wait(const Wait&) = delete;

   private:
    Watchdog& watchdog_;
  };

  /// Answers control messages from other ranks. Must be called with every poll. Reads them at most once every 50 ms.
  void answer_control_messages(const OperationProgress& at);
  /// Returns false if the current wait has not reached the deadline. Otherwise asks all other ranks for their states.
  /// If all of them answer and at least one makes progress with writing, returns true. The wait then continues, and
  /// messages may have completed in the meantime. Otherwise throws a CommunicationError with a table of all ranks'
  /// states.
  bool check_deadline(const OperationProgress& at);

  /// Sets the operation that the device waits for while the host continues, or null. The device's wait starts at the
  /// first call with this operation. The label need not outlive the call.
  void set_device_wait(const OperationLabel* label);
  /// Like check_deadline(), but for the device's wait. Does nothing while the host is waiting for an operation.
  void check_device_deadline(const OperationProgress& at);

  /// Notifies all other ranks that this rank has failed.
  void send_failure();
  /// Returns the rank that failed, or -1 if none has. If multiple ranks have failed, returns the first we learned of.
  /// After send_failure(), returns this rank.
  int failed_rank() const { return failed_rank_; }
  std::string rank_name(int rank) const;

 private:
  void read_control_messages(const OperationProgress& at);
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
  double waits_since_ = 0, patience_since_ = 0;  // the deadline counts from patience_since_
  std::optional<OperationLabel> device_waits_for_;
  double device_since_ = 0, device_patience_since_ = 0;
  double polled_at_ = 0, control_read_at_ = 0, next_warning_ = 0;
  std::function<void(const std::string&)> warn_;
  struct Answer {
    bool writes;  // makes progress with writing to storage
    std::string text;
  };
  std::map<int, Answer> answers_;           // to the most recent question, by rank
  std::map<int, double> others_timed_out_;  // when they asked for states, by rank
  int failed_rank_ = -1;
};

}  // namespace mtl
