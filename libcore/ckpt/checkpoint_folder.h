// Lists, checks, places and removes the checkpoints in a SAVE folder, with the tracker and the leftovers of dead jobs.
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
/// Iterations of the committed checkpoints in a folder, newest first; empty if the folder does not exist.
std::vector<std::int64_t> list_iterations(const std::string& directory);
/// True when the checkpoint of that iteration has a sound manifest (read_sound_manifest) that this user may read.
bool is_sound(const std::string& directory, std::int64_t iteration);

/// The tracker's text (its first 64 bytes), trimmed of whitespace; "" without a tracker.
std::string tracker_text(const std::string& directory);
void write_tracker(const std::string& directory, std::int64_t iteration);

/// Sixteen random hex digits.
std::string random_id();
/// Returns the id in DIRECTORY/run_id; creates the file if there is none. The caller holds the lock.
std::string run_id_of(const std::string& directory);

/// Renames iter_N.old, left by a job that died while replacing that checkpoint, back to iter_N, or removes it if the
/// replacement is sound. Only file systems that cannot exchange two names need this. The caller holds the lock.
void recover_replaced(const std::string& directory);

/// Paths of the leftovers of jobs that died during a save, recognized by name.
std::vector<std::string> list_leftovers(const std::string& directory);
/// Removes the leftovers after syncing the folder: the names of committed checkpoints must be on disk first. The caller
/// holds the lock, so that no other job is writing.
void remove_leftovers(const std::string& directory);

/// Renames a complete folder to its final name and syncs `directory`. If a sound checkpoint of that iteration exists,
/// the two exchange names; a damaged one is renamed to a leftover's name first.
void put_in_place(const std::string& temporary, const std::string& directory, std::int64_t iteration);
/// Deletes sound checkpoints older than `iteration`, except the newest keep_last - 1. Renames each first: a
/// half-deleted folder is never taken for a checkpoint.
void remove_old(const std::string& directory, std::int64_t iteration, std::int64_t keep_last);

}  // namespace mtl
