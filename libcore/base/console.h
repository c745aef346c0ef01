// Prints a tool's messages on stderr, and a progress line, which is redrawn in place only on a terminal.
#pragma once

#include <chrono>
#include <string>

namespace mtl {

/// The main program creates the console and passes it down. A rank has a silent console if another rank prints its
/// messages.
class Console {
 public:
  explicit Console(std::string program) : program_(std::move(program)) {}
  const std::string& program() const { return program_; }
  bool quiet = false;
  bool silent = false;  // suppresses warnings and errors

  /// Prints "program: message" to stderr, unless quiet. Like warn() and error(), first ends the progress line.
  void info(const std::string& message);
  /// Prints "program: warning: message", even if quiet, unless silent.
  void warn(const std::string& message);
  /// Prints "program: message", even if quiet, unless silent. Use error() for a failure after which the program
  /// continues. The exit code must then report the failure.
  void error(const std::string& message);
  /// Unless quiet, redraws the progress line in place if stderr is a terminal; otherwise prints `line` at most once
  /// every `interval` seconds.
  void progress(const std::string& line, double interval = 10);
  /// Ends the progress line with a newline, so that it stays on the screen.
  void end_progress();

 private:
  void write_line(const std::string& text);
  std::string program_;
  bool drawing_ = false;
  std::chrono::steady_clock::time_point last_progress_{};
};

/// Return true if the descriptor is a terminal. wants_color() returns false even for a terminal if NO_COLOR or
/// TERM=dumb is set.
bool is_terminal(int descriptor);
bool wants_color(int descriptor);

/// Returns the time of a monotonic clock, in seconds.
double now_seconds();

}  // namespace mtl
