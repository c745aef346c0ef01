// Lists, checks, installs and removes the checkpoints in a SAVE folder. Also handles the tracker and dead jobs'
// leftovers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "formats/folder_entries.h"

namespace mtl {

inline constexpr const char* kLockName = "lock";
inline constexpr const char* kRunIdName = "run_id";
inline constexpr const char* kBestName = "best_checkpointed_iteration.txt";
inline constexpr const char* kFailedStepName = "failed_step.json";
/// Returns true for the files that a run has beside its checkpoints.
bool is_file_of_run(const std::string& name);

/// Returns the iterations of the committed checkpoints in a folder, newest first, with those whose folder is a link
/// that leads nowhere. Empty if the folder does not exist.
std::vector<std::int64_t> list_iterations(const std::string& directory);
/// Throws Error(bad_data) if a folder contains checkpoints of both mtl and Megatron-LM, which name them alike.
void refuse_two_programs(const std::string& directory);
/// True if the checkpoint of `iteration` has a sound manifest for that iteration (see read_sound_manifest()), and this
/// user may read it.
bool is_sound(const std::string& directory, std::int64_t iteration);

/// Receives warnings about what cannot be removed or written. Nothing needs those files and folders, so that is no
/// error.
using Warn = std::function<void(const std::string& message)>;

/// Only warns if the tracker is something else than a regular file: checkpoints are found without it.
void write_tracker(const std::string& directory, std::int64_t iteration, const Warn& warn);

/// Writes the iteration of the best checkpoint to a file like the tracker, unless it is there. Without one, removes the
/// file. remove_old() reads it.
void write_best(const std::string& directory, std::optional<std::int64_t> iteration, const Warn& warn);

/// Returns sixteen random hex digits.
std::string random_id();
/// Returns the id in DIRECTORY/run_id. If the file is missing or empty, creates it with a random id. The caller must
/// hold the lock.
std::string run_id_of(const std::string& directory);

/// Handles each iter_N.old, which a job left behind when it died while replacing iter_N. If iter_N is sound, removes
/// iter_N.old; otherwise renames it back to iter_N. Such folders occur only on file systems that cannot exchange two
/// names atomically. The caller must hold the lock.
void recover_replaced(const std::string& directory, const Warn& warn);

/// Returns true for the name of a file or folder that a job left behind when it died during a save: iter_N.tmp.PID,
/// iter_N.tmp.old.PID, iter_N.tmp.damaged.PID, or FILE.tmp.PID for a file beside the checkpoints.
bool is_leftover(const std::string& name);
/// Returns the paths of all leftovers.
std::vector<std::string> list_leftovers(const std::string& directory);
/// Syncs the folder, so that the names of committed checkpoints are on disk, and then removes the leftovers. The caller
/// must hold the lock, so that no other job is writing.
void remove_leftovers(const std::string& directory, const Warn& warn);

/// The key in a state's `extra` that marks a checkpoint which stays only until a newer one is complete.
inline constexpr const char* kNonPersistent = "non_persistent";

/// The checkpoints that stay when a newer one is complete.
struct KeptCheckpoints {
  std::int64_t last;          // the newest, with the new one: at least 2, or 0 to keep all
  std::int64_t multiples_of;  // besides, those of iterations that are multiples of this; 0: none
  bool drops_marked;          // those with the mark kNonPersistent do not stay, and do not count; otherwise like others

  KeptCheckpoints(std::int64_t last = 0, std::int64_t multiples_of = 0, bool drops_marked = false)
      : last(last), multiples_of(multiples_of), drops_marked(drops_marked) {}
  bool keeps_all() const { return last == 0 && !drops_marked; }
};
/// Deletes sound checkpoints older than `iteration`, except those `kept`, the best one, and the newest if no other
/// would be left. Renames each folder before deleting it, so that a half-deleted folder is never mistaken for a
/// checkpoint.
void remove_old(const std::string& directory, std::int64_t iteration, const KeptCheckpoints& kept, const Warn& warn);

}  // namespace mtl
