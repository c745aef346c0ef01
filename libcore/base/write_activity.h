// The current write of this process, for a thread that reports it while another thread is inside a system call of
// base/files.
#pragma once

#include <cstdint>
#include <string>

namespace mtl {

struct WriteActivity {
  std::string path;         // of the current or the last call; empty: nothing was written yet
  bool in_call = false;     // a call is running
  double call_seconds = 0;  // how long the running call has taken; 0 if none is running
  double idle_seconds = 0;  // since the last call ended; 0 while one is running
  std::uint64_t bytes = 0;  // written since the last pause longer than kWritePause
  double seconds = 0;       // since that pause
};

/// Calls further apart than this, in seconds, belong to different outputs.
inline constexpr double kWritePause = 5;
/// A call that takes longer, in seconds, counts as hung.
inline constexpr double kLongestWriteCall = 600;

WriteActivity write_activity();

enum class WriteState {
  none,  // not in a write call, nor between two of them
  progresses,
  hangs,  // inside one call for longer than kLongestWriteCall
};

/// Returns the state to report to waiting ranks. Writing counts as ended `patience` or kWritePause seconds after the
/// last call, whichever is less.
WriteState write_state(const WriteActivity& activity, double patience);

/// While it exists, this thread counts as inside a call that changes files.
class WriteCall {
 public:
  explicit WriteCall(const std::string& path);
  ~WriteCall();
  WriteCall(const WriteCall&) = delete;
  void wrote(std::uint64_t bytes);
};

}  // namespace mtl
