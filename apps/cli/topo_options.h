// The options of mtl-topo: a layout of ranks, and a model to lay out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/flags.h"
#include "layout/ranks.h"
#include "layout/schedule.h"
#include "layout/stages.h"
#include "train/options.h"

namespace mtl {

/// Limits of a time chart: stages, and forwards of all stages.
inline constexpr std::int64_t kMostChartStages = 1024, kMostChartForwards = 100000;
/// Limits: cores per rank, so that core numbers in a rankfile fit in an int with up to 2^16 ranks; micro-batches of a
/// step, so that they can be listed.
inline constexpr std::int64_t kMostCores = 1 << 14, kMostMicroBatches = 1 << 20;

struct TopoOptions {
  TopoOptions() { run.parallel.world = 0; }  // --world-size has no default

  TrainOptions run;  // the options shared with mtl-train
  std::int64_t expert = 1;
  std::optional<std::string> rank_order;
  std::optional<std::int64_t> gpus_per_node;
  std::optional<std::string> hosts;  // separated by commas
  std::int64_t cores_per_rank = 1;

  std::optional<std::int64_t> layers_per_virtual_stage, virtual_stages;

  std::optional<std::string> schedule;
  std::optional<std::int64_t> micro_batches, group;

  std::optional<std::string> format, output;

  std::string order() const;
  /// The grid of the dense layers; experts are laid over context and data ranks.
  RankGrid grid() const;
  /// The grid of the expert layers: of the ranks outside tensor and pipeline, `expert` share the experts.
  RankGrid expert_grid() const;
  std::int64_t node_size() const;  // as given; default: 8, or the world size if smaller
  std::vector<std::string> host_names() const;
  std::int64_t chunks() const;  // of each stage
  /// The division of layers and micro-batches among the stages; its grid has no other axis.
  Layout stage_layout() const;
  bool wants_schedule() const { return micro_batches || (run.batch.global_batch_size && fits_chart()); }
  /// A time chart of the step is not too large to be drawn.
  bool fits_chart() const;
  bool wants_memory() const;                               // the model has sizes
  std::optional<std::int64_t> step_micro_batches() const;  // as given, or by the global batch size
  /// Why mtl-train cannot run this layout, or empty.
  std::string unsupported_reason() const;
  /// The same layout as mtl-train's options.
  TrainOptions train_options() const;
  ScheduleKind schedule_kind() const;
  std::string output_format() const;  // text, svg, json or rankfile; empty if the file's name does not end in one
};

void add_topo_flags(Flags& flags, TopoOptions& options);
/// For a Flags::check function: adds a problem for everything that does not fit.
void check_topo(Flags& flags, const TopoOptions& options);

}  // namespace mtl
