// Flags for the layout of a model over ranks, shared by mtl-train and mtl-topo.
#pragma once

#include <functional>

#include "cli/architecture_flags.h"
#include "cli/flags.h"
#include "train/options.h"

namespace mtl {

inline constexpr std::int64_t kLargestWorld = 1 << 16;

/// Adds the number of ranks along each axis, and the order of the axes.
void add_grid_flags(Flags& flags, ParallelOptions& options);
/// Adds the number of layers of the first and of the last stage.
void add_stage_flags(Flags& flags, ParallelOptions& options);
/// Adds the sharding of activation rows (sequence parallelism) and of the optimizer's state, and the size of gradient
/// buckets.
void add_sharing_flags(Flags& flags, ParallelOptions& options);
/// Adds the choice of activations that backward recomputes, and its checks.
void add_recompute_flags(Flags& flags, ParallelOptions& options);
/// Adds the choice of tensors that are kept in host memory instead of GPU memory. `on_gpu` is called after parsing and
/// returns true if the run computes on a GPU.
void add_offload_flags(Flags& flags, ParallelOptions& options, const std::function<bool()>& on_gpu);
/// Adds the micro-batch size and the global batch size.
void add_batch_size_flags(Flags& flags, BatchOptions& options);

}  // namespace mtl
