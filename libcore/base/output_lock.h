// Ensures that only one run at a time writes to a prefix.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/console.h"
#include "base/file_lock.h"
#include "base/interrupt_guard.h"

namespace mtl {

/// Holds PREFIX.lock (base/file_lock.h), which names its holder; removes it on release.
class OutputLock {
 public:
  static std::string path_of(const std::string& prefix) { return prefix + ".lock"; }
  /// Throws Error(failure) that names the holder, or Error(io) if the folder cannot be written to; both messages name
  /// `flag`, which chooses another place. Throws Error(usage) if the file is not a lock of mtl.
  explicit OutputLock(const std::string& prefix, const std::string& flag = "--output-prefix");
  ~OutputLock() { release(); }
  OutputLock(OutputLock&&) noexcept = default;
  void release();
  const std::string& path() const { return lock_->path(); }

 private:
  std::unique_ptr<FileLock> lock_;
};

/// Files that a run is about to write, all in one folder.
struct OutputClaim {
  std::vector<std::string> prefixes;  // to lock; every tool that writes these names locks the same prefixes
  std::vector<std::string> names;     // of the files
  std::vector<std::string> inputs;    // every file that the run reads; "-" is standard input
};

/// Reserves the names for this run while the returned locks are held. Creates the folder, removes leftovers of killed
/// runs, with a message each, and lets a signal remove unfinished files.
/// Throws as OutputLock does, UsageError if a prefix is empty or ends in a slash, or if a file that the run would
/// replace, truncate or remove is an input, and Error(io) if one of the names is a folder.
std::vector<OutputLock> claim_outputs(const OutputClaim& claim, InterruptGuard& guard, Console& console);

/// Returns the temporary files and folders NAME.tmp.PID of `names`, which must all be in one folder. If the caller
/// holds the locks of `names`, they were left by killed runs.
std::vector<std::string> find_leftovers(const std::vector<std::string>& names);

/// Removes the leftovers of `names`, with a message each. The caller holds the locks. Keeps those for which
/// `reason_to_keep` returns a reason ("is a folder"), with a warning.
void remove_leftovers(const std::vector<std::string>& names, Console& console,
                      const std::function<std::string(const std::string& path)>& reason_to_keep);

/// True for a decimal process id, as in the names of temporary files; not for a date such as 20260131.
bool is_process_id(std::string_view text);

/// Removes a file of an earlier run, if it exists. Throws Error(io) on failure.
void remove_old_file(const std::string& path);

}  // namespace mtl
