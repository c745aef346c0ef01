#include "train/signals.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace mtl {

namespace {

// A handler can reach nothing but what has static storage; these three flags are all there is of it.
std::atomic<int> save_requests{0}, status_requests{0}, end_requests{0};
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int number) {
  if (number == SIGUSR1) ++save_requests;
  if (number == SIGUSR2) ++status_requests;
  if (number == SIGINT && end_requests > 0) ::_exit(128 + SIGINT);
  if (number == SIGTERM || number == SIGINT) ++end_requests;
}

constexpr int kSignals[] = {SIGUSR1, SIGUSR2, SIGTERM, SIGINT};

}  // namespace

SignalRequests::SignalRequests() {
  save_requests = status_requests = end_requests = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (int number : kSignals) ::sigaction(number, &action, nullptr);
}

SignalRequests::~SignalRequests() {
  for (int number : kSignals) std::signal(number, SIG_DFL);
}

bool SignalRequests::take_save() { return save_requests.exchange(0) > 0; }
bool SignalRequests::take_status() { return status_requests.exchange(0) > 0; }
bool SignalRequests::wants_end() const { return end_requests > 0; }

}  // namespace mtl
