// A folder of checkpoints, between jobs: which ones are there and sound, what the tracker says, what dead jobs left.
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
/// Iterations of the committed checkpoints in a folder, newest first.
std::vector<std::int64_t> list_iterations(const std::string& directory);
/// True when the folder of that iteration holds a sound manifest of it.
bool is_sound(const std::string& directory, std::int64_t iteration);

/// The iteration that the tracker names, or whatever else is in it; "" without one.
std::string tracker_text(const std::string& directory);
void write_tracker(const std::string& directory, std::int64_t iteration);

/// Sixteen random hex digits.
std::string random_id();
/// The id in DIRECTORY/run_id; the first call makes the file. The caller holds the lock.
std::string run_id_of(const std::string& directory);

/// Gives a checkpoint its name back that a job put aside as iter_N.old, to replace it, and did not come to replace;
/// removes it where the new one is sound. The caller holds the lock. Happens on file systems that cannot exchange
/// names.
void recover_replaced(const std::string& directory);

/// Leftovers of jobs that died in the middle of a save, by the names that a save gives. To remove them the caller
/// holds the lock, so that no other job is writing. Nothing is removed before the names of the checkpoints that stay
/// are on disk.
std::vector<std::string> list_leftovers(const std::string& directory);
void remove_leftovers(const std::string& directory);

/// Gives a finished folder its name. A checkpoint of the same iteration that is already there gives way at once when
/// it is sound (the two change names in one step), and is put aside first when it is damaged.
void put_in_place(const std::string& temporary, const std::string& directory, std::int64_t iteration);
/// Deletes sound checkpoints older than `iteration`, all but the newest keep_last - 1. Each loses its name first, so
/// that a half-deleted folder is never taken for a checkpoint.
void remove_old(const std::string& directory, std::int64_t iteration, std::int64_t keep_last);

}  // namespace mtl
