// Signals as requests that the training loop reads between steps.
//
//   USR1  save and continue   TERM, INT, HUP  save and end (a second INT ends at once)   USR2  print a status line
//
// A run that is still reading its data and its checkpoint has nothing to save: TERM, INT and HUP then end the process
// at once. An ignored HUP stays ignored, as under nohup.
//
// No handler is installed: the signals are blocked, and a dedicated thread waits for them. A handler would run on the
// stack of the interrupted thread, and oneDNN's sgemm, in the middle of a product, points the stack pointer into a heap
// buffer: the handler's frame would overwrite the data below.
#pragma once

#include <atomic>
#include <csignal>
#include <string>
#include <thread>

namespace mtl {

/// While this object exists, the signals above are recorded instead of ending the process. Create at most one at a
/// time, before other threads, which inherit the signal mask.
class SignalRequests {
 public:
  SignalRequests();
  ~SignalRequests();
  SignalRequests(const SignalRequests&) = delete;

  /// From this call to begin_run(), TERM, INT and HUP end the process at once, with this message on stderr ("": none)
  /// and Exit::requeue.
  void end_at_once(std::string message);
  void begin_run() { is_starting_ = false; }

  /// Each returns true if its signal has arrived since the previous call.
  bool take_save() { return save_.exchange(false); }
  bool take_status() { return status_.exchange(false); }
  /// Returns true from the first TERM, INT or HUP on.
  bool end_requested() const { return end_; }

 private:
  void record();

  const sigset_t signals_;
  std::string message_;
  std::atomic<bool> is_starting_{false};
  std::atomic<bool> save_{false}, status_{false}, end_{false}, stopping_{false};
  sigset_t blocked_before_;
  std::thread waiter_;
};

}  // namespace mtl
