// The signals that a process reacts to, and the one that wakes the thread that waits for them.
#pragma once

#include <csignal>
#include <initializer_list>

namespace mtl {

/// Wakes a thread that waits for signals. Nobody else sends it, and by default it has no effect.
inline constexpr int kWakeSignal = SIGURG;

/// Returns these signals, but not INT or HUP if the process ignores it: it inherits that from nohup, or from a shell
/// that runs it in the background of a script, so that what ends the terminal does not end the process. A batch script
/// that ignores TERM or USR1, on the other hand, protects itself while its programs save.
inline sigset_t heeded_signals(std::initializer_list<int> numbers) {
  sigset_t set;
  ::sigemptyset(&set);
  for (int number : numbers) {
    struct sigaction action {};
    if (number == SIGINT || number == SIGHUP) ::sigaction(number, nullptr, &action);
    if (action.sa_handler != SIG_IGN) ::sigaddset(&set, number);
  }
  return set;
}

}  // namespace mtl
