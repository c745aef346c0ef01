// A folder that a tool writes: it takes its name when it is complete, or never appears.
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
  bool replace = false;  // --force: a folder that is not empty may be replaced
  std::string source;    // the folder that is read, which is never replaced
};

/// Files are written into staged(), a sibling of the target; commit() gives it the target's name. A symbolic link is
/// followed: what it points to is replaced. One run at a time writes to a target (TARGET.lock); what killed runs left
/// of it is removed at the start. Without commit() the staged files are removed, by a signal too.
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
  /// Throws Error(io) as well when the new folder is in place but the old one could not be removed; names what is left.
  void commit();

 private:
  void check_target(const OutputFolderOptions& options) const;
  void check_replaced() const;

  std::string path_, staged_, replaced_;
  InterruptGuard& guard_;
  std::optional<OutputLock> lock_;
  std::optional<SaveDirectory> save_lock_;  // of a replaced save folder
  bool committed_ = false;
};

}  // namespace mtl
