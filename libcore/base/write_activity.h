// Records which file this process is writing, so that one thread can report the write while another thread is inside a
// system call of base/files.
#pragma once

#include <cstdint>
#include <string>

namespace mtl {

struct WriteActivity {
  std::string path;         // of the running call or else the last call; empty before the first call
  bool in_call = false;     // true while a call is running
  double call_seconds = 0;  // since the running call began; 0 if no call is running
  double idle_seconds = 0;  // since the last call ended; 0 while a call is running
  std::uint64_t bytes = 0;  // bytes written since the last pause longer than kWritePause
  double seconds = 0;       // since the end of that pause
};

/// Two calls with a longer pause between them, in seconds, belong to different outputs.
inline constexpr double kWritePause = 5;
/// A call that takes longer than this, in seconds, counts as hung.
inline constexpr double kLongestWriteCall = 600;

WriteActivity write_activity();

enum class WriteState {
  none,  // neither inside a write call nor shortly after one
  progresses,
  hangs,  // inside one write call for longer than kLongestWriteCall
};

/// Returns the state to report to ranks that wait for this rank. Writing counts as finished min(patience, kWritePause)
/// seconds after the last call.
WriteState write_state(const WriteActivity& activity, double patience);

/// While a WriteCall exists, its thread counts as being inside a call that changes files.
class WriteCall {
 public:
  explicit WriteCall(const std::string& path);
  ~WriteCall();
  WriteCall(const WriteCall&) = delete;
  void wrote(std::uint64_t bytes);
};

}  // namespace mtl
