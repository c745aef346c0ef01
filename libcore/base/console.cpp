#include "base/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "base/printable.h"

namespace mtl {

namespace {

constexpr double kBetweenDrawings = 0.1;  // seconds

/// Serializes what is on stderr, which all consoles share, and the state of the lines there.
std::mutex stderr_mutex;

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
  const std::lock_guard lock(stderr_mutex);
  end_lines();
  std::fprintf(stderr, "%s: %s\n", program_.c_str(), printable_message(text).c_str());
  last_output_ = now_seconds();
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

void Console::write_progress(const std::string& line) {
  if (is_terminal(STDERR_FILENO)) {
    draw(line);
    drawing_ = true;
  } else {
    std::fprintf(stderr, "%s: %s\n", program_.c_str(), printable_text(line).c_str());
  }
  last_progress_ = last_output_ = now_seconds();
}

void Console::progress(const std::string& line, double interval) {
  if (quiet) return;
  const std::lock_guard lock(stderr_mutex);
  last_call_ = now_seconds();
  const bool is_first = last_progress_ == 0, draws = is_terminal(STDERR_FILENO);
  if (is_first) last_progress_ = last_call_;
  if ((is_first && draws) || now_seconds() - last_progress_ >= (draws ? kBetweenDrawings : interval))
    write_progress(line);
}

void Console::remind(const std::string& line, double silence) {
  const std::lock_guard lock(stderr_mutex);
  if (!quiet && now_seconds() - last_output_ >= silence && now_seconds() - last_call_ >= silence / 2)
    write_progress(line);
}

void Console::status(const std::string& line) {
  const std::lock_guard lock(stderr_mutex);
  if (quiet || now_seconds() - last_progress_ < kBetweenDrawings || !is_terminal(STDERR_FILENO)) return;
  draw(line);
  has_status_ = true;
  last_progress_ = last_output_ = now_seconds();
}

void Console::end_progress() {
  const std::lock_guard lock(stderr_mutex);
  end_lines();
}

void Console::end_lines() {
  if (drawing_) std::fputc('\n', stderr);
  if (has_status_) std::fputs("\r\033[K", stderr);
  drawing_ = has_status_ = false;
}

}  // namespace mtl
