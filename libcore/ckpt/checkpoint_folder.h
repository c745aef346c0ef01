// Lists, checks, installs and removes the checkpoints in a SAVE folder. Also handles the tracker and the leftovers of
// dead jobs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mtl {

inline constexpr const char* kTrackerName = "latest_checkpointed_iteration.txt";
inline constexpr const char* kLockName = "lock";
inline constexpr const char* kRunIdName = "run_id";

/// Returns the folder name of a checkpoint, such as "iter_0001000".
std::string folder_of(std::int64_t iteration);
/// Returns the iterations of the committed checkpoints in a folder, newest first; empty if the folder does not exist.
std::vector<std::int64_t> list_iterations(const std::string& directory);
/// True if the checkpoint of `iteration` has a sound manifest (see read_sound_manifest()) for that iteration and this
/// user may read the manifest.
bool is_sound(const std::string& directory, std::int64_t iteration);

/// Returns the first 64 bytes of the tracker, without leading and trailing whitespace; "" if there is no tracker.
std::string tracker_text(const std::string& directory);
void write_tracker(const std::string& directory, std::int64_t iteration);

/// Returns sixteen random hex digits.
std::string random_id();
/// Returns the id in DIRECTORY/run_id. If the file is missing or empty, creates it with a random id. The caller holds
/// the lock.
std::string run_id_of(const std::string& directory);

/// Handles each iter_N.old, an old checkpoint left behind by a job that died while replacing iter_N. If iter_N is
/// sound, removes iter_N.old; otherwise renames iter_N.old back to iter_N. Such folders occur only on file systems that
/// cannot exchange two names atomically. The caller holds the lock.
void recover_replaced(const std::string& directory);

/// Returns the paths of files and folders left behind by jobs that died during a save. Recognizes leftovers by name.
std::vector<std::string> list_leftovers(const std::string& directory);
/// Syncs the folder, so that the names of committed checkpoints are on disk, and then removes the leftovers. The caller
/// holds the lock, so that no other job is writing.
void remove_leftovers(const std::string& directory);

/// Renames the complete folder `temporary` to the final name of checkpoint `iteration`, then syncs `directory`. If a
/// sound checkpoint of that iteration exists, the two folders exchange names. If a damaged checkpoint of that iteration
/// exists, first renames the damaged checkpoint to the name of a leftover.
void put_in_place(const std::string& temporary, const std::string& directory, std::int64_t iteration);
/// Deletes the sound checkpoints older than `iteration`, except the newest keep_last - 1 of them. Renames each folder
/// before deleting it, so that a half-deleted folder is never mistaken for a checkpoint.
void remove_old(const std::string& directory, std::int64_t iteration, std::int64_t keep_last);

}  // namespace mtl
