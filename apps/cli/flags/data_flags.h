// Flags for a run's samples and their order, shared by mtl-train and mtl-data order.
#pragma once

#include "cli/flags.h"
#include "run/options.h"

namespace mtl {

/// Adds --seq-length.
void add_length_flag(Flags& flags, DataOptions& data);
/// Adds --reset-attention-mask.
void add_mask_flag(Flags& flags, DataOptions& data);
/// Adds flags for token files, their split, the sample length, and the sample order.
void add_data_flags(Flags& flags, DataOptions& data);
/// Adds flags for batch sizes and the number of updates.
void add_batch_flags(Flags& flags, BatchOptions& batch);
/// For Flags::check. Rejects --split if each split has its own data path. With --step-batch-size-schedule but no
/// --global-batch-size, uses the schedule's largest size as the global batch size.
void resolve_data_flags(Flags& flags, const DataOptions& data, BatchOptions& batch, std::int64_t data_parallel);

}  // namespace mtl
