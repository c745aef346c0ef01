// Prints a tool's messages on stderr, plus a progress line that is redrawn in place only on a terminal.
#pragma once

#include <chrono>
#include <string>

namespace mtl {

/// Returns monotonic time in seconds.
double now_seconds();

/// The main program creates the console and passes it down. On ranks whose messages another rank prints, it is silent.
/// Threads may print at the same time.
class Console {
 public:
  /// With `is_silent`, prints nothing.
  explicit Console(std::string program, bool is_silent = false)
      : quiet(is_silent), silent(is_silent), program_(std::move(program)) {}
  const std::string& program() const { return program_; }
  bool quiet;
  bool silent;  // suppresses warnings and errors

  /// Prints "program: message" to stderr, unless quiet. Ends the progress line first, as do warn() and error().
  void info(const std::string& message);
  /// Prints "program: warning: message", even if quiet, unless silent.
  void warn(const std::string& message);
  /// Prints "program: message", even if quiet, unless silent. Meant for failures after which the program continues; its
  /// exit code must then report the failure.
  void error(const std::string& message);
  /// Unless quiet, redraws the progress line in place if stderr is a terminal; otherwise prints `line` at most once
  /// every `interval` seconds.
  void progress(const std::string& line, double interval = 10);
  /// Like progress(), but only if nothing has appeared for `silence` seconds, nor has progress() been called recently.
  void remind(const std::string& line, double silence);
  /// Unless quiet, redraws a line below the messages if stderr is a terminal, at most ten times a second.
  void status(const std::string& line);
  /// Ends the progress line with a newline so that it stays on the screen, and removes the status line. Every message
  /// does both.
  void end_progress();

 private:
  void write_line(const std::string& text);
  void write_progress(const std::string& line);
  void draw(const std::string& line);
  void end_lines();
  std::string program_;
  bool drawing_ = false, has_status_ = false;
  // In seconds, 0 before the first time.
  double last_progress_ = 0;            // drawn or printed, or first called
  double last_output_ = now_seconds();  // anything on stderr, or the start
  double last_call_ = 0;                // of progress()
};

/// Return true for a terminal. With NO_COLOR or TERM=dumb, wants_color() returns false even then.
bool is_terminal(int descriptor);
bool wants_color(int descriptor);

}  // namespace mtl
