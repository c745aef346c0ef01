#include "base/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/printable.h"

namespace mtl {

namespace {

constexpr double kBetweenDrawings = 0.1;  // seconds

}  // namespace

bool is_terminal(int descriptor) { return isatty(descriptor) == 1; }

bool wants_color(int descriptor) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  if (no_color != nullptr && no_color[0] != '\0') return false;
  return is_terminal(descriptor) && (term == nullptr || std::strcmp(term, "dumb") != 0);
}

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Draws over the current line of the terminal, as much as fits into it.
void Console::draw(const std::string& line) {
  winsize size{};
  const bool has_size = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  std::fprintf(stderr, "\r\033[K%s", printable_text(has_size ? line.substr(0, size.ws_col - 1) : line).c_str());
  std::fflush(stderr);
}

void Console::write_line(const std::string& text) {
  end_progress();
  erase_status();
  std::fprintf(stderr, "%s: %s\n", program_.c_str(), printable_message(text).c_str());
}

void Console::info(const std::string& message) {
  if (!quiet) write_line(message);
}

void Console::warn(const std::string& message) {
  if (!silent) write_line("warning: " + message);
}

void Console::error(const std::string& message) {
  if (!silent) write_line(message);
}

void Console::progress(const std::string& line, double interval) {
  if (quiet) return;
  auto now = std::chrono::steady_clock::now();
  bool first = last_progress_ == std::chrono::steady_clock::time_point{};
  if (first) last_progress_ = now;
  double waited = std::chrono::duration<double>(now - last_progress_).count();
  if (is_terminal(STDERR_FILENO)) {
    if (!first && waited < kBetweenDrawings) return;
    draw(line);
    drawing_ = true;
  } else {
    if (waited < interval) return;
    std::fprintf(stderr, "%s: %s\n", program_.c_str(), printable_text(line).c_str());
  }
  last_progress_ = now;
}

void Console::status(const std::string& line) {
  const auto now = std::chrono::steady_clock::now();
  const double waited = std::chrono::duration<double>(now - last_progress_).count();
  if (quiet || waited < kBetweenDrawings || !is_terminal(STDERR_FILENO)) return;
  draw(line);
  has_status_ = true;
  last_progress_ = now;
}

void Console::erase_status() {
  if (has_status_) std::fputs("\r\033[K", stderr);
  has_status_ = false;
}

void Console::end_progress() {
  if (drawing_) std::fputc('\n', stderr);
  drawing_ = false;
}

}  // namespace mtl
