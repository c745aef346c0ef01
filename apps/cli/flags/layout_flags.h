// Flags for a model's layout over ranks, shared by mtl-train and mtl-topo.
#pragma once

#include <functional>

#include "cli/flags.h"
#include "cli/flags/architecture_flags.h"
#include "run/options.h"

namespace mtl {

/// Adds --world-size, which sets ParallelOptions::plan_world.
void add_world_size_flag(Flags& flags, ParallelOptions& options, const std::string& help, const Flags::Rule& rule);
/// Adds --gpus-per-node.
void add_node_size_flag(Flags& flags, ParallelOptions& options, const std::string& help,
                        const Flags::Rule& rule = no_rule);
/// Adds the number of ranks per axis, and the axis order.
void add_grid_flags(Flags& flags, ParallelOptions& options);
/// Adds the distribution of layers over the stages, and its checks.
void add_stage_flags(Flags& flags, ParallelOptions& options);
/// Adds the pipeline schedule, under `names`.
void add_schedule_flag(Flags& flags, ParallelOptions& options, const std::string& names,
                       const Flags::Rule& rule = no_rule);
/// Adds the division of stages into several chunks.
void add_interleaving_flags(Flags& flags, ParallelOptions& options);
/// Adds sharding for activation rows (sequence parallelism) and for the optimizer state, the gradient bucket size, and
/// communication during computation.
void add_sharing_flags(Flags& flags, ParallelOptions& options);
/// Adds the choice of activations to recompute in the backward pass, and its checks.
void add_recompute_flags(Flags& flags, ParallelOptions& options);
/// Adds --offload-optimizer.
void add_file_offload_flag(Flags& flags, ParallelOptions& options);
/// Adds the choice of tensors to keep in host memory instead of GPU memory. `on_gpu`, called after parsing, returns
/// true if the run computes on a GPU. Adds --offload-optimizer, too.
void add_offload_flags(Flags& flags, ParallelOptions& options, const std::function<bool()>& on_gpu);
/// Adds the micro-batch size and the global batch size.
void add_batch_size_flags(Flags& flags, BatchOptions& options);

}  // namespace mtl
