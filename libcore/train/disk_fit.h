// Checks before training that the checkpoints of a run fit the disk.
#pragma once

#include <cstdint>
#include <string>

#include "train/options.h"

namespace mtl {

/// Disk space in --save for a run's checkpoints.
struct SpaceNeed {
  std::uint64_t checkpoint_bytes = 0;
  std::int64_t checkpoints = 0;  // on the disk at once, in addition to the present ones
};
/// The need of a run that starts at `iteration`, with `present` checkpoints in --save.
SpaceNeed space_need(const TrainOptions& options, const GptConfig& config, std::int64_t iteration,
                     std::int64_t present);
/// Returns a warning, or "" if all checkpoints fit. Throws Error(io) if not even one fits into `free_bytes`.
std::string check_space(const SpaceNeed& need, std::uint64_t free_bytes, const std::string& folder);
/// check_space() for the --save folder as it is now; "" if its file system does not report free space.
std::string check_save_folder(const TrainOptions& options, const GptConfig& config, std::int64_t iteration);

}  // namespace mtl
