// A tool's messages to its user on stderr, and a progress line that animates only on a terminal.
#pragma once

#include <chrono>
#include <string>

namespace mtl {

/// Passed down from the main program. Ranks whose messages another rank prints have a silent one.
class Console {
 public:
  explicit Console(std::string program) : program_(std::move(program)) {}
  const std::string& program() const { return program_; }
  bool quiet = false;
  bool silent = false;  // suppresses warnings and errors

  /// "program: message" on stderr, unless quiet. Ends a progress line that is being drawn.
  void info(const std::string& message);
  /// "program: warning: message", also when quiet; not when silent.
  void warn(const std::string& message);
  /// A failure that the program survives and that its exit code reports: "program: message", also when quiet; not when
  /// silent.
  void error(const std::string& message);
  /// Unless quiet, redraws one line in place on a terminal; elsewhere prints one at most every `interval` seconds.
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

/// Seconds since an arbitrary start, steady.
double now_seconds();

}  // namespace mtl
