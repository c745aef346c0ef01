// Checks before training that the checkpoints of a run fit on the disk.
#pragma once

#include <cstdint>
#include <string>

#include "train/options.h"

namespace mtl {

/// Disk space in --save for a run's checkpoints.
struct SpaceNeed {
  std::uint64_t checkpoint_bytes = 0;
  std::int64_t checkpoints = 0;  // the most at once, in addition to the present ones
};
/// Returns the disk space that a run needs if it starts at `iteration` with `present` checkpoints in --save.
SpaceNeed space_need(const TrainOptions& options, const GptConfig& config, std::int64_t iteration,
                     std::int64_t present);
/// Returns a warning, or "" if all checkpoints fit. Throws Error(io) if not even one fits into `free_bytes`.
std::string check_space(const SpaceNeed& need, std::uint64_t free_bytes, const std::string& folder);
/// Calls check_space() for the present --save folder. Returns "" if its file system does not report free space.
std::string check_save_folder(const TrainOptions& options, const GptConfig& config, std::int64_t iteration);

}  // namespace mtl
