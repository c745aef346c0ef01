// The flags that decide which samples a run sees and in which order: mtl-train's and mtl-data order's.
#pragma once

#include "cli/flags.h"
#include "train/options.h"

namespace mtl {

/// Token files, their split, and the order of their samples.
void add_data_flags(Flags& flags, DataOptions& data);
/// Batch sizes and the number of updates.
void add_batch_flags(Flags& flags, BatchOptions& batch);
/// Relations between them that need to know what was given; a check. Fills in what a schedule of sizes implies.
void settle_data_flags(Flags& flags, const DataOptions& data, BatchOptions& batch, std::int64_t data_parallel);

}  // namespace mtl
