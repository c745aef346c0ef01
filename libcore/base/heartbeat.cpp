#include "base/heartbeat.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/str.h"
#include "base/worker_thread.h"

namespace mtl {

Heartbeat::Heartbeat(Console& console, std::function<std::string()> what, double silence)
    : console_(console), what_(std::move(what)) {
  const auto beat = [this, silence, start = now_seconds()] {
    const std::chrono::duration<double> pause(silence / 20);
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, pause, [this] { return has_ended_; })) {
      if (const std::string what = what_(); !what.empty())
        console_.remind(cat(what, ", ", human_seconds(now_seconds() - start), " so far"), silence);
    }
  };
  try {
    thread_ = worker_thread(beat);
  } catch (const std::system_error&) {
    // The work itself does not need another thread.
  }
}

Heartbeat::Heartbeat(Console& console, std::string what, double silence)
    : Heartbeat(
          console, [what = std::move(what)] { return what; }, silence) {}

Heartbeat::~Heartbeat() {
  if (!thread_.joinable()) return;
  end_thread(thread_, mutex_, ended_, has_ended_);
  console_.end_progress();
}

bool waits_for_stdin() {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  return ::poll(&input, 1, 0) == 0;
}

void announce_terminal(Console& console) {
  if (is_terminal(STDIN_FILENO)) console.info("waiting for standard input, which Ctrl-D ends");
}

Heartbeat reading_heartbeat(Console& console, const std::vector<std::string>& files, const std::string& what) {
  if (std::ranges::count(files, "-") == 0) return Heartbeat(console, what);
  announce_terminal(console);
  return Heartbeat(console, [what]() -> std::string {
    if (!waits_for_stdin()) return what;
    return is_terminal(STDIN_FILENO) ? "" : "waiting for standard input";
  });
}

}  // namespace mtl
