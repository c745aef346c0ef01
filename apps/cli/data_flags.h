// Flags for the samples of a run and their order, shared by mtl-train and mtl-data order.
#pragma once

#include "cli/flags.h"
#include "train/options.h"

namespace mtl {

/// Adds flags for token files, their split, and the order of their samples.
void add_data_flags(Flags& flags, DataOptions& data);
/// Adds flags for batch sizes and the number of updates.
void add_batch_flags(Flags& flags, BatchOptions& batch);
/// For a Flags::check function. Refuses --split if each split has a separate data path. If --step-batch-size-schedule
/// is given without --global-batch-size, sets the global batch size to the largest size in the schedule.
void settle_data_flags(Flags& flags, const DataOptions& data, BatchOptions& batch, std::int64_t data_parallel);

}  // namespace mtl
