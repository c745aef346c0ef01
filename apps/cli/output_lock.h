// One run at a time writes to a prefix.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/console.h"
#include "cli/interrupt_guard.h"

namespace mtl {

/// Holds PREFIX.lock, which names its holder and is removed with it. A dead holder's lock does not count. On a file
/// system without locks it protects nothing.
class OutputLock {
 public:
  static std::string path_of(const std::string& prefix) { return prefix + ".lock"; }
  /// Throws Error(failure) that names the holder, Error(io) when the folder cannot be written to; both name the flag
  /// that chooses another place.
  explicit OutputLock(const std::string& prefix, std::string flag = "--output-prefix");
  ~OutputLock() { release(); }
  OutputLock(OutputLock&& other) noexcept
      : path_(std::move(other.path_)),
        flag_(std::move(other.flag_)),
        descriptor_(std::exchange(other.descriptor_, -1)) {}
  void release();
  const std::string& path() const { return path_; }

 private:
  bool take(const std::string& prefix);
  std::string path_, flag_;
  int descriptor_ = -1;
};

/// Files that a run is about to write, all in one folder.
struct OutputClaim {
  std::vector<std::string> prefixes;  // to lock: every tool that writes these names locks these
  std::vector<std::string> names;     // of the files
  std::vector<std::string> inputs;    // every file that the run reads; "-" is standard input
};

/// Reserves the names for this run while the locks are held. Makes the folder, removes what killed runs left of the
/// names, with a message, and lets a signal remove what is unfinished.
/// Throws as OutputLock does, UsageError when something that it would replace, truncate or remove is an input, and
/// Error(io) when one of the names is a folder.
std::vector<OutputLock> claim_outputs(const OutputClaim& claim, InterruptGuard& guard, Console& console);

/// Returns the temporary files and folders NAME.tmp.PID of the names, which are all in one folder. If the caller holds
/// their locks, the runs that wrote them were killed.
std::vector<std::string> find_leftovers(const std::vector<std::string>& names);

/// Removes these leftovers, with a message each. The caller holds the locks.
void remove_leftovers(const std::vector<std::string>& names, Console& console);

/// Removes what an earlier run left, if it is there. Throws Error(io) when it cannot.
void remove_old_file(const std::string& path);

/// The folder of a file or prefix, "." for none.
std::string folder_of(const std::string& path);

}  // namespace mtl
