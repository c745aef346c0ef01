// Flags for the layout of a model over ranks, shared by mtl-train and mtl-topo.
#pragma once

#include <functional>

#include "cli/architecture_flags.h"
#include "cli/flags.h"
#include "train/options.h"

namespace mtl {

inline constexpr std::int64_t kLargestWorld = 1 << 16;

/// Ranks along the axes, and their order.
void add_grid_flags(Flags& flags, ParallelOptions& options);
/// Layers of the first and of the last stage.
void add_stage_flags(Flags& flags, ParallelOptions& options);
/// Sharding of anything but layers: rows, the optimizer's state, sums of gradients.
void add_sharing_flags(Flags& flags, ParallelOptions& options);
/// Activations that backward computes again.
void add_recompute_flags(Flags& flags, ParallelOptions& options);
/// Tensors kept in host memory instead of the GPU's. `on_gpu` is called after parsing: true if the run computes on a
/// GPU.
void add_offload_flags(Flags& flags, ParallelOptions& options, const std::function<bool()>& on_gpu);
/// Samples per pass, and per update.
void add_batch_size_flags(Flags& flags, BatchOptions& options);

}  // namespace mtl
