// Starts threads with signals blocked, so that others receive them.
#pragma once

#include <pthread.h>

#include <csignal>
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

}  // namespace mtl
