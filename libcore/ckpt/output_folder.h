// A tool's output folder: appears complete under its name, or not at all.
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
  std::string source;    // the folder of the model to read, which is never replaced
};

/// The caller writes files into staged(), a sibling of the target; commit() renames it to the target. Follows symbolic
/// links: replaces the folder that a link points to. One run at a time writes to a target (TARGET.lock). The
/// constructor removes leftovers of killed runs; the destructor, or a signal, removes staged files that are not
/// committed.
///
/// With `replace` the target may hold a model or one checkpoint and nothing else (ckpt/model_folder.h); the lock of a
/// save folder is held from the start to the replacement.
class OutputFolder {
 public:
  /// Refuses every target that commit() could not replace: Error(usage), Error(io), or Error(failure) when another
  /// process writes there. `guard` must outlive this object.
  OutputFolder(const OutputFolderOptions& options, InterruptGuard& guard, Console& console);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;

  const std::string& staged() const { return staged_; }
  const std::string& path() const { return path_; }  // absolute, without symbolic links
  /// The kind of folder that commit() replaces, such as "a Hugging Face model"; empty when it replaces nothing.
  const std::string& replaced() const { return replaced_; }
  /// Throws Error(failure), and replaces nothing, when the folder to replace has gained files that are not part of its
  /// model. Throws Error(io) that names the old folder when the new one is in place but the old one remains.
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
