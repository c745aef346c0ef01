// Starts threads with signals blocked, so that others receive them, and ends threads.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>
#include <utility>

namespace mtl {

/// Starts a thread that blocks all signals except its own faults (SEGV, BUS, FPE and ILL).
template <class Function>
std::thread worker_thread(Function function) {
  sigset_t all, before;
  ::sigfillset(&all);
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::sigdelset(&all, fault);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  std::thread thread(std::move(function));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

/// Sets `is_ending`, for which the thread waits with `mutex` and `wake`, and blocks until the thread has ended.
inline void end_thread(std::thread& thread, std::mutex& mutex, std::condition_variable& wake, bool& is_ending) {
  {
    std::lock_guard lock(mutex);
    is_ending = true;
  }
  wake.notify_all();
  thread.join();
}

}  // namespace mtl
