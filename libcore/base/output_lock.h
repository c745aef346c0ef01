// Lets only one run at a time write the files with a given output prefix.
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

/// Holds the lock file PREFIX.lock (base/file_lock.h). The destructor, or a signal, removes the file.
class OutputLock {
 public:
  static std::string path_of(const std::string& prefix) { return prefix + ".lock"; }
  /// Throws Error(failure), which names the holder, if another process holds the lock, Error(io) if the lock file
  /// cannot be created or locked, and Error(usage) if the file exists but is not an mtl lock file. If the prefix is in
  /// use or its folder is not writable, the message suggests changing `flag`, which sets the prefix. `guard` must
  /// outlive this object.
  OutputLock(const std::string& prefix, InterruptGuard& guard, const std::string& flag = "--output-prefix");
  ~OutputLock();
  OutputLock(OutputLock&&) noexcept = default;
  const std::string& path() const { return lock_->path(); }

 private:
  InterruptGuard* guard_;
  std::unique_ptr<FileLock> lock_;
};

/// The files a run is about to write, all in one folder.
struct OutputClaim {
  std::vector<std::string> prefixes;     // to lock; must be the same in all tools that write these files
  std::vector<std::string> names;        // of the files to write
  std::vector<std::string> inputs;       // everything the run reads; "-" is standard input
  std::string flag = "--output-prefix";  // sets the prefixes
};

/// Reserves the names for this run for as long as the caller holds the returned locks. Creates the folder. Removes
/// leftovers of killed runs, with a message for each; keeps those that are folders or cannot be removed, with a
/// warning. Registers the lock files and the unfinished files with `guard`, so that a signal removes them.
///
/// Throws what OutputLock's constructor throws. Throws UsageError if a prefix is empty or ends in a slash, or if the
/// run would replace, truncate or remove one of its inputs. Throws Error(io) if the folder cannot be created, or if one
/// of the names is a folder.
std::vector<OutputLock> claim_outputs(const OutputClaim& claim, InterruptGuard& guard, Console& console);

/// Returns the temporary files and folders NAME.tmp.PID for all `names`, which must be in one folder. While the caller
/// holds the locks for `names`, these are leftovers of killed runs.
std::vector<std::string> find_leftovers(const std::vector<std::string>& names);

/// Removes the leftovers for `names`, with a message for each. If reason_to_keep(path) returns a reason, such as
/// "is a folder", or if the leftover cannot be removed, keeps it and prints a warning. The caller must hold the locks
/// for `names`.
void remove_leftovers(const std::vector<std::string>& names, Console& console,
                      const std::function<std::string(const std::string& path)>& reason_to_keep);

/// Returns true if `text` is a decimal process id, as in temporary file names, and false for larger numbers such as the
/// date 20260131.
bool is_process_id(std::string_view text);

/// Removes a file from an earlier run, if any. Throws Error(io) on failure.
void remove_old_file(const std::string& path);

}  // namespace mtl
