// Records which file this process is writing, so that one thread can report it while another is inside a system call in
// base/files.
#pragma once

#include <cstdint>
#include <string>

namespace mtl {

struct WriteActivity {
  std::string path;         // for the running or last call; empty before the first
  bool in_call = false;     // a call is running
  double call_seconds = 0;  // since the running call began; otherwise 0
  double idle_seconds = 0;  // since the last call ended; 0 during a call
  std::uint64_t bytes = 0;  // written since the last pause longer than kWritePause
  double seconds = 0;       // since that pause ended
};

/// After a longer pause, in seconds, the next call counts as a different output.
inline constexpr double kWritePause = 5;
/// A call that takes longer, in seconds, counts as hung.
inline constexpr double kLongestWriteCall = 600;

WriteActivity write_activity();

enum class WriteState {
  none,  // not writing, now or just before
  progresses,
  hangs,  // inside a single call for longer than kLongestWriteCall
};

/// Returns the state to report to ranks that wait for this one. Writing counts as finished min(patience, kWritePause)
/// seconds after the last call.
WriteState write_state(const WriteActivity& activity, double patience);

/// While a WriteCall exists, this process is considered to be changing files. If several exist, the first one's path
/// and begin count.
class WriteCall {
 public:
  explicit WriteCall(const std::string& path);
  ~WriteCall();
  WriteCall(const WriteCall&) = delete;
  /// Adds to WriteActivity::bytes.
  void wrote(std::uint64_t bytes);
};

}  // namespace mtl
