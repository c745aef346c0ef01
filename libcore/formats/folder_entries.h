// The entries of a folder, and the names that mtl and Megatron-LM both give to an iteration's folder and to the
// tracker.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mtl {

struct FolderEntry {
  std::string name;
  bool is_file, is_folder;  // both false for links, sockets, FIFOs, devices
};

/// Returns a folder's entries in byte order of their names. Throws Error(io) if it cannot be listed completely.
std::vector<FolderEntry> list_entries(const std::string& folder);
/// Returns the names of a folder's entries, in byte order. Empty if `folder` does not exist or is not a folder. Throws
/// Error(io) if it cannot be listed completely.
std::vector<std::string> names_in_folder(const std::string& folder);
/// True if `name` matches `pattern`. In `pattern`, # matches one or more digits, * matches any text, and every other
/// character matches itself.
bool matches(std::string_view name, std::string_view pattern);
/// Matches a name against literal parts with a number of up to five digits between any two:
/// ("mp_rank_", "_model_states.pt"). Returns the numbers, or empty if the name does not match.
std::optional<std::vector<int>> numbers_in(std::string_view name, const std::vector<std::string_view>& parts);
/// Returns the subfolder PREFIXn with the largest number n for which `holds` is true. Empty if there is none.
std::optional<std::string> newest_numbered(const std::string& folder, std::string_view prefix,
                                           bool (*holds)(const std::string& folder));

inline constexpr const char* kTrackerName = "latest_checkpointed_iteration.txt";
/// Returns the tracker's first 64 bytes, without leading and trailing whitespace, or "" if it is not a regular file.
std::string tracker_text(const std::string& directory);
/// Returns a checkpoint's folder name, such as "iter_0001000".
std::string folder_of(std::int64_t iteration);
/// Returns the iteration in a checkpoint folder's name, such as 1000 for "iter_0001000". Empty for any other name.
std::optional<std::int64_t> iteration_in_name(const std::string& name);

}  // namespace mtl
