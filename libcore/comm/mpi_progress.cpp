#include "comm/mpi_progress.h"

#include <sched.h>

#include <chrono>
#include <thread>

#include "base/console.h"

namespace mtl {

namespace {

// Idle polls before the core is offered to others. Few: the offer costs next to nothing when nobody takes it, and where
// ranks share a core the one that is waited for gets on at once.
constexpr int kSpins = 10;
constexpr double kYieldSeconds = .01;  // idle time before sleeping
constexpr auto kNap = std::chrono::microseconds(50);

}  // namespace

MpiProgress::MpiProgress(int rank, int world) : wire_(rank, world), watchdog_(wire_) {}

std::shared_ptr<MpiCommunicator> MpiProgress::group(const std::vector<int>& ranks, std::string name) {
  communicators_.push_back(std::make_shared<MpiCommunicator>(*this, ranks, std::move(name)));
  return communicators_.back();
}

bool MpiProgress::poll() {
  bool moved = wire_.poll() > 0;
  if (moved) {
    for (auto& communicator : communicators_) communicator->advance();
  }
  watchdog_.look(at());
  return moved;
}

void MpiProgress::wait(const Task& task) {
  if (task.finished()) return;
  Watchdog::Wait wait(watchdog_, task.label());
  int idle_polls = 0;
  double idle_since = 0;
  while (!task.finished()) {
    if (poll()) {
      idle_polls = 0;
      continue;
    }
    if (++idle_polls <= kSpins) continue;
    double now = now_seconds();
    if (idle_polls == kSpins + 1) idle_since = now;
    watchdog_.check_deadline(at());
    if (now - idle_since < kYieldSeconds) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
}

}  // namespace mtl
