// The command of --after-save, which a shell runs after each save, such as one that copies the checkpoint elsewhere,
// while training continues. Only one command runs at a time, so that it is always the newest or second newest
// checkpoint that one reads, which no save removes.
//
// The command has a process group of its own, so that a signal to the run, such as Ctrl-C, does not reach it. It reads
// nothing, and writes to stderr, because the run's stdout is its log. posix_spawn() starts it: unlike fork(), it copies
// no memory, which MPI and CUDA may have registered.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/console.h"

namespace mtl {

class SaveCommand {
 public:
  /// If the run has to end, the command should get so many seconds before end().
  static constexpr int kPatience = 20;

  /// Without a `command`, all functions do nothing. Warns on `console`, which the caller must keep alive.
  SaveCommand(std::string command, Console& console) : command_(std::move(command)), console_(console) {}
  // The destructor leaves a command alone: after a fault, it may still complete its copy.

  /// Starts the command, with $MTL_CHECKPOINT, the checkpoint's absolute path, and $MTL_ITERATION. No other may be
  /// running. Warns if there is no shell.
  void start(const std::string& checkpoint, std::int64_t iteration);
  /// Waits until the command has ended, or for `seconds`. Returns true if it has ended; warns if it has failed.
  bool wait(double seconds);
  /// Sends TERM to the command and to what it has started, and KILL three seconds later. Warns.
  void end();

 private:
  /// Waits like wait(). Returns what is wrong with how the command ended, or nothing if it runs.
  std::optional<std::string> reap(double seconds);

  std::string command_;
  Console& console_;
  std::optional<pid_t> running_;
  std::string checkpoint_;  // as given to start()
};

}  // namespace mtl
