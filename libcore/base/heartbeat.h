// Signs of life during a step that may take long or wait, and that says little itself.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/console.h"

namespace mtl {

/// While it exists, says what the program does whenever the console has been still: "verifying web, 9 s so far".
class Heartbeat {
 public:
  static constexpr double kSilence = 9;  // seconds; so that a user reads something within ten

  /// `what` is called by another thread. Nothing is printed while it returns "".
  Heartbeat(Console& console, std::function<std::string()> what, double silence = kSilence);
  Heartbeat(Console& console, std::string what, double silence = kSilence);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;

 private:
  Console& console_;
  std::function<std::string()> what_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  std::thread thread_;  // empty if none can be started
};

/// True if a read from standard input would wait for another program.
bool waits_for_stdin();

/// If standard input is a terminal, says that the program waits for it.
void announce_terminal(Console& console);

/// For a step that reads these files, where "-" is standard input. Instead of `what`, says that it waits for standard
/// input while that is so; for a terminal at once, and only then, so as not to disturb who types there.
Heartbeat reading_heartbeat(Console& console, const std::vector<std::string>& files, const std::string& what);

}  // namespace mtl
