// Whether the checkpoints of a run fit the disk, before it trains.
#pragma once

#include <cstdint>
#include <string>

#include "train/options.h"

namespace mtl {

/// Disk space in --save for a run's checkpoints.
struct SpaceNeed {
  std::uint64_t checkpoint_bytes = 0;
  std::int64_t checkpoints = 0;  // on the disk at once, besides those that are there now
};
/// Counts the rest of a run that starts at `iteration`, with `present` checkpoints in --save.
SpaceNeed space_need(const TrainOptions& options, const GptConfig& config, std::int64_t iteration,
                     std::int64_t present);
/// Throws Error(io) when not even one checkpoint fits into `free_bytes`; otherwise a warning, or "" when all fit.
std::string check_space(const SpaceNeed& need, std::uint64_t free_bytes, const std::string& folder);
/// The same for the folder of --save as it is now.
std::string check_save_folder(const TrainOptions& options, const GptConfig& config, std::int64_t iteration);

}  // namespace mtl
