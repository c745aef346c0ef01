#include "comm/mpi_progress.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/console.h"
#include "base/worker_thread.h"
#include "comm/nccl_transport.h"

namespace mtl {

namespace {

// Idle polls before the rank yields its core. Can be small: yielding costs almost nothing if no other thread wants the
// core, and if ranks share a core, the rank we are waiting for can run immediately.
constexpr int kSpins = 10;
constexpr double kYieldSeconds = .01;  // after this idle time, the rank sleeps between polls instead of yielding
constexpr auto kSleep = std::chrono::microseconds(50);
constexpr auto kAnswerPause = std::chrono::milliseconds(100);
// The progress thread's pauses double from the first to the longest. Waking takes several microseconds from the core
// that computes.
constexpr auto kFirstPause = std::chrono::microseconds(100), kLongestPause = std::chrono::microseconds(3200);

}  // namespace

MpiProgress::MpiProgress(int rank, int world) : wire_(rank, world), watchdog_(wire_) {
  if (wire_.threads_may_take_turns()) progress_thread_ = worker_thread([this] { run_progress_thread(); });
}

std::unique_lock<std::mutex> MpiProgress::enter() {
  std::unique_lock lock(mutex_);
  if (thread_error_ != nullptr) std::rethrow_exception(std::exchange(thread_error_, nullptr));
  if (progress_of_run_ != nullptr) at_ = *progress_of_run_;
  return lock;
}

void MpiProgress::follow(const OperationProgress* progress) {
  std::lock_guard lock(mutex_);
  progress_of_run_ = progress;
}

void MpiProgress::watch(NcclTransport* gpus) {
  require(gpus == nullptr || progress_thread_.joinable(),
          "ranks on GPUs need MPI_THREAD_SERIALIZED, which this MPI library does not provide; use an Open MPI that "
          "does, or choose --device cpu");
  std::lock_guard lock(mutex_);
  gpus_ = gpus;
}

/// Answers control messages from other ranks and checks device operations for faults. If a rank has failed, aborts the
/// device operations, because the host may be waiting for them.
void MpiProgress::check_others() {
  watchdog_.answer_control_messages(at_);
  if (gpus_ == nullptr) return;
  if (watchdog_.failed_rank() >= 0) halt();
  gpus_->check_faults(at_);
}

void MpiProgress::abandon(const Task& task) {
  std::lock_guard lock(mutex_);
  if (task.finished()) return;
  halt();
  abandoned_ = true;
}

void MpiProgress::interrupt_others() {
  std::lock_guard lock(mutex_);
  watchdog_.send_failure();  // before anything that could hang
  halt();
}

bool MpiProgress::is_control(const Task& task) const {
  return !communicators_.empty() && task.label().group == &communicators_.front()->identity();
}

void MpiProgress::halt() {
  if (halted_ || communicators_.empty()) return;
  halted_ = true;
  if (gpus_ != nullptr) gpus_->abandon();
  wire_.abandon_messages(communicators_.front()->handle());
}

void MpiProgress::stop_progress_thread() {
  if (progress_thread_.joinable()) end_thread(progress_thread_, mutex_, wake_up_, stopping_);
}

std::shared_ptr<MpiCommunicator> MpiProgress::group(const std::vector<int>& ranks, std::string name) {
  communicators_.push_back(std::make_shared<MpiCommunicator>(*this, ranks, std::move(name)));
  return communicators_.back();
}

void MpiProgress::advance_all() {
  for (auto& communicator : communicators_) {
    communicator->advance();
    if (halted_) break;  // the control group comes first
  }
}

bool MpiProgress::poll() {
  bool moved = wire_.poll() > 0;
  if (moved) advance_all();
  check_others();
  return moved;
}

bool MpiProgress::is_idle() const {
  if (halted_) return communicators_.front()->is_idle();
  return std::all_of(communicators_.begin(), communicators_.end(),
                     [](const auto& communicator) { return communicator->is_idle(); });
}

void MpiProgress::progress_in_background() {
  if (abandoned_ || !progress_thread_.joinable() || is_idle()) return;
  is_polling_ = has_started_ = true;
  wake_up_.notify_one();
}

void MpiProgress::run_progress_thread() {
  std::unique_lock lock(mutex_);
  auto pause = kFirstPause;
  try {
    while (!stopping_) {
      if (abandoned_ || is_idle()) is_polling_ = false;
      if (!is_polling_) {
        // While the main thread computes or writes, we answer ranks that are waiting for this rank.
        bool is_called = wake_up_.wait_for(lock, kAnswerPause, [this] { return is_polling_ || stopping_; });
        if (!is_called && !abandoned_) check_others();
      } else if (!poll()) {
        if (std::exchange(has_started_, false)) pause = kFirstPause;
        wake_up_.wait_for(lock, pause, [this] { return has_started_ || stopping_; });
        pause = std::min(2 * pause, kLongestPause);
      } else {
        pause = kFirstPause;
        lock.unlock();  // let the main thread take the lock
        ::sched_yield();
        lock.lock();
      }
    }
  } catch (...) {
    thread_error_ = std::current_exception();
  }
}

void MpiProgress::wait(const Task& task) {
  if (task.finished()) return;
  if (is_control(task)) abandoned_ = false;
  Watchdog::Wait wait(watchdog_, task.label());
  int idle_polls = 0;
  double idle_since = 0;
  while (!task.finished()) {
    bool moved = poll();
    if (watchdog_.failed_rank() >= 0 && !is_control(task)) {
      halt();
      throw Interrupted(
          cat(task.label().text(), ": interrupted, ", watchdog_.rank_name(watchdog_.failed_rank()), " failed"));
    }
    if (moved) {
      idle_polls = 0;
      continue;
    }
    if (++idle_polls <= kSpins) continue;
    double now = now_seconds();
    if (idle_polls == kSpins + 1) idle_since = now;
    if (watchdog_.check_deadline(at_)) advance_all();
    if (now - idle_since < kYieldSeconds) {
      ::sched_yield();
    } else {
      std::this_thread::sleep_for(kSleep);
    }
  }
}

}  // namespace mtl
