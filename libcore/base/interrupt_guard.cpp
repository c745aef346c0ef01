#include "base/interrupt_guard.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/heeded_signals.h"

namespace mtl {

namespace {

sigset_t with(sigset_t set, std::initializer_list<int> numbers) {
  for (int number : numbers) ::sigaddset(&set, number);
  return set;
}

sigset_t awaited_signals() { return heeded_signals({SIGINT, SIGTERM, SIGHUP, SIGXCPU, kWakeSignal}); }

/// Locked forever by the thread that removes files.
std::shared_mutex& creation_mutex() {
  static std::shared_mutex instance;
  return instance;
}

/// Removes a file or folder. Retries, because another thread may still be renaming files in the folder.
void remove_with_content(const std::string& path) {
  constexpr int kTries = 100;
  std::error_code error;
  for (int tries = 0; tries < kTries; ++tries) {
    std::filesystem::remove_all(path, error);
    if (!error) return;
  }
}

}  // namespace

InterruptGuard::InterruptGuard(std::string program) : program_(std::move(program)) {
  const sigset_t blocked = with(awaited_signals(), {SIGPIPE, SIGXFSZ});
  ::pthread_sigmask(SIG_BLOCK, &blocked, &blocked_before_);
  waiter_ = std::thread([this] { wait_for_signal(); });
}

InterruptGuard::~InterruptGuard() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ::pthread_kill(waiter_.native_handle(), kWakeSignal);
  waiter_.join();
  // Consume pending signals: unblocked, they would end the process.
  const sigset_t pending = with({}, {SIGPIPE, SIGXFSZ});
  const timespec now{};
  while (::sigtimedwait(&pending, nullptr, &now) > 0) {
  }
  ::pthread_sigmask(SIG_SETMASK, &blocked_before_, nullptr);
}

void InterruptGuard::remove_on_signal(std::string path) {
  std::lock_guard lock(mutex_);
  files_.push_back(std::move(path));
}

std::unique_lock<std::mutex> InterruptGuard::keep_files() {
  std::unique_lock lock(mutex_);
  files_.clear();
  return lock;
}

std::shared_lock<std::shared_mutex> InterruptGuard::allow_creation() { return std::shared_lock(creation_mutex()); }

void InterruptGuard::wait_for_signal() {
  const sigset_t signals = awaited_signals();
  int number = kWakeSignal;
  std::unique_lock lock(mutex_, std::defer_lock);
  while (number == kWakeSignal) {
    if (::sigwait(&signals, &number) != 0) number = kWakeSignal;
    lock.lock();
    if (stopping_) {  // a signal that came late is not lost: it is pending until the destructor unblocks it
      if (number != kWakeSignal) ::kill(::getpid(), number);
      return;
    }
    if (number == kWakeSignal) lock.unlock();
  }
  creation_mutex().lock();
  for (const std::vector<std::string>& paths : {files_, lock_files_}) {
    for (const std::string& path : paths) remove_with_content(path);
  }
  std::fprintf(stderr, "%s%s: ended by signal %d (%s)%s\n", ::isatty(STDERR_FILENO) == 1 ? "\n" : "", program_.c_str(),
               number, ::strsignal(number), files_.empty() ? "" : "; its unfinished files are removed");
  std::signal(number, SIG_DFL);
  const sigset_t set = with({}, {number});
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  ::raise(number);
  ::_exit(128 + number);
}

}  // namespace mtl
