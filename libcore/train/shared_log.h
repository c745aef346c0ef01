// The JSON lines log, a file to which several runs may append at the same time, and which each of them rewinds when it
// resumes (log_rewind.h).
//
// Rewinding replaces the file. A run that kept its descriptor would then write into a file without a name, and its
// lines would be lost. So every write first locks the file (flock) and opens it again if it has been replaced, and a
// rewind holds the same lock until the new file is in place. If another run wrote last, a start line that names this
// run precedes the next line, because a line itself does not say which run wrote it.
//
// If a lock cannot be obtained within kLockSeconds (its holder is suspended, or the file system has no locks), we write
// without it: a log must not stop a run. Pipes and devices are written as they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "train/log_rewind.h"
#include "train/log_sink.h"

namespace mtl {

class SharedLog {
 public:
  static constexpr double kLockSeconds = 5;

  /// Creates the file and its folder if necessary, rewinds it to `start`, and appends `start_line`. Throws Error(io),
  /// or Error(bad_data) if the file is not a training log.
  SharedLog(std::string path, const LogStart& start, std::string_view start_line);
  /// Appends a line, which ends in a newline. `continuation` is the start line to write first if another run has
  /// written since the last call. Throws Error(io) and then leaves the file unchanged.
  void write(std::string_view line, std::string_view continuation);
  /// See LogFile::sync().
  void sync();

 private:
  /// What tells whether another run has replaced the file or appended to it.
  struct FileState {
    std::uint64_t device = 0, inode = 0, bytes = 0;
    bool operator==(const FileState&) const = default;
  };
  FileState current_state() const;
  void rewind(const LogStart& start);

  std::string path_;
  std::optional<LogFile> file_;  // null after a failure to open it
  FileState written_;            // after our last write
};

}  // namespace mtl
