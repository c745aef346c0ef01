// A tool's messages to its user on stderr, and a progress line that animates only on a terminal.
#pragma once

#include <chrono>
#include <string>

namespace mtl {

/// The main program creates it and passes it down. A rank whose messages another rank prints has a silent console.
class Console {
 public:
  explicit Console(std::string program) : program_(std::move(program)) {}
  const std::string& program() const { return program_; }
  bool quiet = false;
  bool silent = false;  // suppresses warnings and errors

  /// Prints "program: message" to stderr, unless quiet. Ends a progress line that is being drawn.
  void info(const std::string& message);
  /// Prints "program: warning: message", even if quiet, unless silent.
  void warn(const std::string& message);
  /// Prints "program: message", even if quiet, unless silent. For a failure that the program survives and that its exit
  /// code reports.
  void error(const std::string& message);
  /// Unless quiet, redraws one line in place on a terminal; elsewhere prints a line at most every `interval` seconds.
  void progress(const std::string& line, double interval = 10);
  /// Ends the progress line and leaves it on the screen.
  void end_progress();

 private:
  void write_line(const std::string& text);
  std::string program_;
  bool drawing_ = false;
  std::chrono::steady_clock::time_point last_progress_{};
};

/// True if the descriptor is a terminal; wants_color also honors NO_COLOR and TERM=dumb.
bool is_terminal(int descriptor);
bool wants_color(int descriptor);

/// Returns the seconds of a monotonic clock.
double now_seconds();

}  // namespace mtl
