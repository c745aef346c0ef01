// One run at a time writes to a prefix.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/console.h"
#include "cli/interrupt_guard.h"

namespace mtl {

/// Holds PREFIX.lock, which says who holds it and goes with its holder. A dead holder's lock does not count. On a file
/// system that knows no locks it holds nothing.
class OutputLock {
 public:
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

/// Makes the files `names`, all of one folder, this run's own while the locks are held: one for each of `prefixes`,
/// which are those that any tool which writes these names locks. Makes the folder, removes what killed runs left of the
/// names, with a message, and lets a signal remove what is unfinished.
/// Throws as OutputLock does, and Error(io) when one of the names is a folder.
std::vector<OutputLock> claim_outputs(const std::vector<std::string>& prefixes, const std::vector<std::string>& names,
                                      InterruptGuard& guard, Console& console);

/// Removes what killed runs left of the names, files or folders NAME.tmp.PID, with a message. The caller holds the
/// locks.
void remove_leftovers(const std::vector<std::string>& names, Console& console);

/// Removes what an earlier run left, if it is there. Throws Error(io) when it cannot.
void remove_old_file(const std::string& path);

/// The folder of a file or prefix, "." for none.
std::string folder_of(const std::string& path);

}  // namespace mtl
