#include "train/signals.h"

#include <pthread.h>
#include <unistd.h>

#include <utility>

#include "base/error.h"

namespace mtl {

namespace {

sigset_t request_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (int number : {SIGUSR1, SIGUSR2, SIGTERM, SIGINT}) ::sigaddset(&signals, number);
  return signals;
}

}  // namespace

SignalRequests::SignalRequests() {
  const sigset_t signals = request_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, &blocked_before_);
  waiter_ = std::thread([this] { record(); });
}

SignalRequests::~SignalRequests() {
  stopping_ = true;
  ::pthread_kill(waiter_.native_handle(), SIGUSR2);  // wakes it
  waiter_.join();
  ::pthread_sigmask(SIG_SETMASK, &blocked_before_, nullptr);
}

void SignalRequests::end_at_once(std::string message) {
  message_ = message.empty() ? "" : std::move(message) + "\n";
  is_starting_ = true;
}

void SignalRequests::record() {
  const sigset_t signals = request_signals();
  while (!stopping_) {
    int number = 0;
    if (::sigwait(&signals, &number) != 0) continue;
    if (number == SIGUSR1) save_ = true;
    if (number == SIGUSR2) status_ = true;
    if ((number == SIGTERM || number == SIGINT) && is_starting_) {
      (void)!::write(STDERR_FILENO, message_.data(), message_.size());
      ::_exit(static_cast<int>(Exit::requeue));
    }
    if (number == SIGINT && end_) ::_exit(128 + SIGINT);
    if (number == SIGTERM || number == SIGINT) end_ = true;
  }
}

}  // namespace mtl
