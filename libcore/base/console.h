// A tool's messages to its user on stderr, and a progress line that animates only on a terminal.
#pragma once

#include <chrono>
#include <string>

namespace mtl {

/// Made once by run_main and passed down. Only rank 0 of a job gets one that speaks.
class Console {
 public:
  explicit Console(std::string program) : program_(std::move(program)) {}
  const std::string& program() const { return program_; }
  bool quiet = false;
  bool silent = false;  // also without warnings: of a rank that has nothing to say but what another one says

  /// "program: message" on stderr, unless quiet. Ends a progress line that is being drawn.
  void info(const std::string& message);
  /// As info, but also when quiet; not when silent.
  void warn(const std::string& message);
  /// A failure that the program survives and that its exit code reports: "program: message", also when quiet.
  void error(const std::string& message);
  /// Redraws one line in place on a terminal; elsewhere prints a plain line at most every `interval` seconds.
  void progress(const std::string& line, double interval = 10);
  /// Ends the progress line and leaves it on the screen.
  void end_progress();

 private:
  void write_line(const std::string& text);
  std::string program_;
  bool drawing_ = false;
  std::chrono::steady_clock::time_point last_progress_{};
};

/// True when the descriptor is a terminal; `color` also asks for NO_COLOR and TERM=dumb.
bool is_terminal(int descriptor);
bool wants_color(int descriptor);

/// Seconds since an arbitrary start, steady.
double now_seconds();

}  // namespace mtl
