#include "comm/arrival_deadline.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/worker_thread.h"

namespace mtl {

ArrivalDeadline::ArrivalDeadline(double seconds, std::function<void()> expired)
    : watcher_([this, seconds, expired = std::move(expired)] { watch(seconds, expired); }) {}

ArrivalDeadline::~ArrivalDeadline() { end_thread(watcher_, mutex_, wake_, arrived_); }

void ArrivalDeadline::watch(double seconds, const std::function<void()>& expired) {
  // In seconds. One wait counts no more than this, even if the process was suspended meanwhile.
  constexpr double kSlice = 1;
  std::unique_lock lock(mutex_);
  while (seconds > 0) {
    double slice = std::min(kSlice, seconds);
    if (wake_.wait_for(lock, std::chrono::duration<double>(slice), [this] { return arrived_; })) return;
    seconds -= slice;
  }
  lock.unlock();
  expired();
}

}  // namespace mtl
