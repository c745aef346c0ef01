// Signals as requests that the training loop reads between steps.
//
//   USR1  save and continue   TERM, INT, HUP, XCPU  save and end   USR2  print a status line
//
// A step may take minutes, so a request is answered on stderr at once, with what will happen and when.
//
// A second INT ends the process immediately, but only if it arrives at least a second after the first one:
// `timeout -s INT` sends INT twice within microseconds, once to the process and once to its group.
//
// A run that is still reading its data and checkpoint has nothing to save, so TERM, INT, HUP and XCPU then terminate
// the process immediately. INT and HUP remain ignored if they were when the process started (base/heeded_signals.h).
//
// The signals are blocked, and a dedicated thread waits for them. We cannot install handlers, because a handler runs on
// the interrupted thread's stack. During oneDNN's sgemm, the stack pointer points into a heap buffer, and a handler's
// stack frame would overwrite data in it.
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

namespace mtl {

/// Blocks the signals above in the calling thread. mtl-train does so before main(), so that a signal that arrives while
/// the program starts waits for SignalRequests and does not terminate the process.
void block_request_signals();
/// Restores their effect in a process that will not create SignalRequests. A signal that has been waiting takes effect
/// immediately.
void unblock_request_signals();

/// While this object exists, the signals above are recorded and do not terminate the process. At most one object may
/// exist. It must be created before other threads start, because threads inherit the signal mask.
class SignalRequests {
 public:
  SignalRequests();
  ~SignalRequests();
  SignalRequests(const SignalRequests&) = delete;

  /// From this call until begin_run(), TERM, INT, HUP and XCPU terminate the process immediately with Exit::requeue,
  /// and so does this call if one of them has arrived. If `message` is not empty, prints it to stderr first.
  void end_at_once(std::string message);
  /// Must be called before MPI starts. In the two seconds after this call, a signal ends the process only when they
  /// have passed: Open MPI's mpirun hangs if a rank ends while it connects to its launcher.
  void begin_connecting() { connecting_since_ = std::chrono::steady_clock::now().time_since_epoch().count(); }
  /// Begins the run, which computes iteration after iteration, and `saves` or has no --save folder. If it `answers`,
  /// requests are answered on stderr.
  void begin_run(bool answers, bool saves);
  /// Sets the iteration that the run finishes before it handles a request.
  void begin_iteration(std::int64_t iteration) { iteration_ = iteration; }
  /// From now on, the run handles no requests, because it is ending.
  void end_run() { is_ending_ = true; }

  /// Each returns true if its signal has arrived since the previous call.
  bool take_save() { return save_.exchange(false); }
  bool take_status() { return status_.exchange(false); }
  /// Returns true once TERM, INT, HUP or XCPU has arrived.
  bool end_requested() const { return end_; }

 private:
  void record();
  void answer(int number, const char* what) const;
  [[noreturn]] void end_start();
  bool is_second_interrupt();

  const sigset_t signals_;
  std::string message_;
  std::atomic<bool> is_starting_{false};
  std::atomic<std::chrono::steady_clock::rep> connecting_since_{0};
  std::atomic_flag has_ended_;
  std::optional<std::chrono::steady_clock::time_point> first_interrupt_;  // used only by the waiter
  std::atomic<bool> save_{false}, status_{false}, end_{false}, stopping_{false};
  std::atomic<bool> answers_{false}, saves_{false}, is_ending_{false};
  std::atomic<std::int64_t> iteration_{0};
  sigset_t blocked_before_;
  std::thread waiter_;
};

}  // namespace mtl
