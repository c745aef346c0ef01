// A tool's output folder, which gets its final name only when it is complete.
#pragma once

#include <optional>
#include <string>

#include "base/console.h"
#include "base/interrupt_guard.h"
#include "base/output_lock.h"
#include "ckpt/checkpoint.h"

namespace mtl {

/// The values of --save and --force, and the model to read.
struct OutputFolderOptions {
  std::string path;
  bool replace = false;  // --force: may replace a folder that is not empty
  std::string source;    // the model folder to read, which is never replaced
};

/// An output folder under construction. The caller writes files into staged(), a folder next to the target, and
/// commit() renames it to the target. If the target is a symbolic link, commit() replaces the folder that it points to.
/// Only one run at a time can write to a target, because the run holds TARGET.lock. The constructor removes leftovers
/// from killed runs. Unless staged() has been committed, the destructor or a signal removes it.
///
/// With `replace`, the target may contain a model or one checkpoint and nothing else (ckpt/model_folder.h). If the
/// target is a save folder, holds its lock from construction until the folder is replaced.
class OutputFolder {
 public:
  /// Rejects every target that commit() could not replace: throws Error(usage), Error(io), or, if another process is
  /// writing to the target, Error(failure). The caller must keep `guard` alive.
  OutputFolder(const OutputFolderOptions& options, InterruptGuard& guard, Console& console);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;

  const std::string& staged() const { return staged_; }
  const std::string& path() const { return path_; }  // absolute, without symbolic links
  /// Returns the kind of folder that commit() replaces, such as "a Hugging Face model". Empty if it does not replace
  /// anything.
  const std::string& replaced() const { return replaced_; }
  /// Renames staged() to the target. If the folder to replace now contains files that are not part of its model, throws
  /// Error(failure) and replaces nothing. If the new folder is in place but the old one could not be removed, throws
  /// Error(io) with the old folder's name.
  void commit();

 private:
  void check_target(const OutputFolderOptions& options) const;
  void check_replaced() const;

  std::string path_, staged_, replaced_;
  InterruptGuard& guard_;
  std::optional<OutputLock> lock_;
  std::optional<SaveDirectory> save_lock_;  // held if the folder to replace is a save folder
  bool committed_ = false;
};

}  // namespace mtl
