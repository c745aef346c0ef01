// How much a process can write: the free space of a file system, and the limit of file sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mtl {

/// Returns how many bytes are free in the folder's file system, for this user. Empty if it does not say: some network
/// file systems report an error, and some others (ramfs, FUSE) a size of 0.
std::optional<std::uint64_t> free_disk_bytes(const std::string& folder);

/// Returns the most bytes that a file of this process can have (ulimit -f), or empty if there is no limit.
std::optional<std::uint64_t> file_size_limit();

}  // namespace mtl
