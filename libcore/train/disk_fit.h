// Checks before training that the run's checkpoints, and its state in files, will fit on the disk.
#pragma once

#include <cstdint>
#include <string>

#include "run/options.h"

namespace mtl {

/// Disk space in --save for a run's checkpoints.
struct SpaceNeed {
  std::uint64_t checkpoint_bytes = 0;
  std::int64_t checkpoints = 0;  // the most that exist at any time, in addition to the existing ones
};
/// Returns how much disk space a run needs if it starts at `iteration` and --save already contains `present`
/// checkpoints.
SpaceNeed space_need(const TrainOptions& options, const GptConfig& config, std::int64_t iteration,
                     std::int64_t present);
/// Returns "" if all checkpoints fit into `free_bytes`, otherwise a warning. Throws Error(io) if not even one
/// checkpoint fits.
std::string check_space(const SpaceNeed& need, std::uint64_t free_bytes, const std::string& folder);
/// Calls check_space() for the current --save folder. Returns "" if its file system does not report free space.
/// `state_bytes` is what the run also keeps in --offload-optimizer, which may be on the same file system.
std::string check_save_folder(const TrainOptions& options, const GptConfig& config, std::int64_t iteration,
                              std::uint64_t state_bytes);
/// Throws Error(io) if this rank's shard of a checkpoint, even without its header, exceeds the size that a file of this
/// process can have.
void check_shard_size(const TrainOptions& options, const GptConfig& config, std::int64_t iteration, int rank);
/// Throws Error(io) if no file can be created in --offload-optimizer, or if `state_bytes` do not fit there. On a file
/// system that hosts share, they are those of one host. Returns a warning if the folder is in memory, otherwise "".
std::string check_offload_folder(const std::string& folder, std::uint64_t state_bytes);

}  // namespace mtl
