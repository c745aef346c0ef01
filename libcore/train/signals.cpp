#include "train/signals.h"

#include <pthread.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/heeded_signals.h"
#include "base/str.h"
#include "comm/launcher_end.h"

namespace mtl {

namespace {

sigset_t request_signals() { return heeded_signals({SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP, SIGXCPU, kWakeSignal}); }

bool requests_end(int number) { return number == SIGTERM || number == SIGINT || number == SIGHUP || number == SIGXCPU; }

constexpr std::chrono::seconds kLeastBetweenInterrupts{1};
constexpr std::chrono::seconds kLeastToConnect{2};

}  // namespace

void block_request_signals() {
  const sigset_t signals = request_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

void unblock_request_signals() {
  const sigset_t signals = request_signals();
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

SignalRequests::SignalRequests() : signals_(request_signals()) {
  ::pthread_sigmask(SIG_BLOCK, &signals_, &blocked_before_);
  waiter_ = std::thread([this] { record(); });
}

SignalRequests::~SignalRequests() {
  stopping_ = true;
  ::pthread_kill(waiter_.native_handle(), kWakeSignal);
  waiter_.join();
  ::pthread_sigmask(SIG_SETMASK, &blocked_before_, nullptr);
}

void SignalRequests::end_at_once(std::string message) {
  message_ = message.empty() ? "" : std::move(message) + "\n";
  is_starting_ = true;
  if (end_) end_start();  // the signal arrived before this call
}

void SignalRequests::begin_run(bool answers, bool saves) {
  answers_ = answers;
  saves_ = saves;
  is_starting_ = false;
}

/// Says at once what the signal will do. The console belongs to the thread that computes.
void SignalRequests::answer(int number, const char* what) const {
  if (!answers_) return;
  const std::string happens =
      is_ending_ ? "the run is ending already" : cat("finishing iteration ", iteration_.load(), what);
  const std::string line = cat("mtl-train: ", ::sigabbrev_np(number), ": ", happens, "\n");
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

/// Terminates the process, whose run has not begun. Two threads may call this.
void SignalRequests::end_start() {
  while (has_ended_.test_and_set()) ::pause();  // the other thread ends the process
  (void)!::write(STDERR_FILENO, message_.data(), message_.size());
  if (connecting_since_ != 0) {
    const std::chrono::steady_clock::duration since{connecting_since_};
    std::this_thread::sleep_until(std::chrono::steady_clock::time_point(since) + kLeastToConnect);
  }
  end_launcher_after();  // mpirun may wait for ever if a rank ends while others connect
  ::_exit(static_cast<int>(Exit::requeue));
}

void SignalRequests::record() {
  while (!stopping_) {
    int number = 0;
    if (::sigwait(&signals_, &number) != 0) continue;
    if (number == SIGUSR1 && !save_.exchange(true))
      answer(number, saves_ ? ", then saving" : "; without --save nothing is kept");
    if (number == SIGUSR2) status_ = true;
    // end_at_once() writes and reads these two in the opposite order, so that at least one of the threads sees both.
    const bool is_first = requests_end(number) && !end_.exchange(true);
    if (requests_end(number) && is_starting_) end_start();
    if (is_first) answer(number, saves_ ? ", then saving and ending" : ", then ending; without --save nothing is kept");
    if (number == SIGINT && is_second_interrupt()) ::_exit(128 + SIGINT);
  }
}

/// Accounts for an INT. TERM and HUP do not count, because launchers send INT right after them.
bool SignalRequests::is_second_interrupt() {
  const auto now = std::chrono::steady_clock::now();
  if (!first_interrupt_) first_interrupt_ = now;
  return now - *first_interrupt_ >= kLeastBetweenInterrupts;
}

}  // namespace mtl
