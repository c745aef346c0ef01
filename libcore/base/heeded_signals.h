// The signals that a process reacts to.
#pragma once

#include <csignal>
#include <initializer_list>

namespace mtl {

/// Returns those of the signals that the process does not ignore. A process inherits what its parent ignores: HUP under
/// nohup, INT in a script's background job, anything with `trap '' SIGNAL`. It must not take over such a signal.
inline sigset_t heeded_signals(std::initializer_list<int> numbers) {
  sigset_t set;
  ::sigemptyset(&set);
  for (int number : numbers) {
    struct sigaction action {};
    ::sigaction(number, nullptr, &action);
    if (action.sa_handler != SIG_IGN) ::sigaddset(&set, number);
  }
  return set;
}

}  // namespace mtl
