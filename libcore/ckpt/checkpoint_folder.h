// The checkpoints in a SAVE folder: which exist and are sound, the tracker, and the leftovers of dead jobs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mtl {

inline constexpr const char* kTrackerName = "latest_checkpointed_iteration.txt";
inline constexpr const char* kLockName = "lock";
inline constexpr const char* kRunIdName = "run_id";

/// "iter_0001000".
std::string folder_of(std::int64_t iteration);
/// Iterations of the committed checkpoints in a folder, newest first; empty without the folder.
std::vector<std::int64_t> list_iterations(const std::string& directory);
/// True when the folder of that iteration holds a sound manifest of it.
bool is_sound(const std::string& directory, std::int64_t iteration);

/// The tracker's text without white space at its ends (at most 64 bytes); "" without a tracker.
std::string tracker_text(const std::string& directory);
void write_tracker(const std::string& directory, std::int64_t iteration);

/// Sixteen random hex digits.
std::string random_id();
/// The id in DIRECTORY/run_id; the first call makes the file. The caller holds the lock.
std::string run_id_of(const std::string& directory);

/// Restores the name of a checkpoint that a job renamed to iter_N.old and died before replacing; removes it if the
/// replacement is sound. The caller holds the lock. Such names occur on file systems that cannot exchange names.
void recover_replaced(const std::string& directory);

/// Paths of the leftovers of jobs that died during a save, recognized by name.
std::vector<std::string> list_leftovers(const std::string& directory);
/// Removes them, after a sync of the folder: the names of committed checkpoints must be on disk first. The caller holds
/// the lock, so that no other job is writing.
void remove_leftovers(const std::string& directory);

/// Renames a finished folder to its final name and syncs `directory`. Exchanges its name with that of a sound
/// checkpoint of the same iteration; renames a damaged one to a leftover's name first.
void put_in_place(const std::string& temporary, const std::string& directory, std::int64_t iteration);
/// Deletes sound checkpoints older than `iteration`, except the newest keep_last - 1. Renames each first: a
/// half-deleted folder is never taken for a checkpoint.
void remove_old(const std::string& directory, std::int64_t iteration, std::int64_t keep_last);

}  // namespace mtl
