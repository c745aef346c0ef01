#include "base/write_activity.h"

#include <algorithm>
#include <mutex>

#include "base/console.h"

namespace mtl {

namespace {

/// This process's write calls. Overlapping calls on several threads count as one, from the start of the first to the
/// end of the last.
struct Record {
  std::mutex mutex;
  std::string path;
  int running = 0;
  double call_began = 0, call_ended = 0, output_began = 0;
  std::uint64_t bytes = 0;
};

Record& record() {
  static Record instance;
  return instance;
}

}  // namespace

WriteActivity write_activity() {
  Record& now = record();
  std::lock_guard lock(now.mutex);
  WriteActivity out;
  out.path = now.path;
  if (out.path.empty()) return out;
  const double seconds = now_seconds();
  out.in_call = now.running > 0;
  out.call_seconds = out.in_call ? seconds - now.call_began : 0;
  out.idle_seconds = out.in_call ? 0 : seconds - now.call_ended;
  out.bytes = now.bytes;
  out.seconds = seconds - now.output_began;
  return out;
}

WriteState write_state(const WriteActivity& activity, double patience) {
  if (activity.path.empty()) return WriteState::none;
  if (activity.in_call) return activity.call_seconds > kLongestWriteCall ? WriteState::hangs : WriteState::progresses;
  return activity.idle_seconds < std::min(patience, kWritePause) ? WriteState::progresses : WriteState::none;
}

WriteCall::WriteCall(const std::string& path) {
  Record& now = record();
  std::lock_guard lock(now.mutex);
  const double seconds = now_seconds();
  if (now.running++ > 0) return;
  if (now.path.empty() || seconds - now.call_ended > kWritePause) {
    now.output_began = seconds;
    now.bytes = 0;
  }
  now.path = path;
  now.call_began = seconds;
}

WriteCall::~WriteCall() {
  Record& now = record();
  std::lock_guard lock(now.mutex);
  --now.running;
  now.call_ended = now_seconds();
}

void WriteCall::wrote(std::uint64_t bytes) {
  Record& now = record();
  std::lock_guard lock(now.mutex);
  now.bytes += bytes;
}

}  // namespace mtl
