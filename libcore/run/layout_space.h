// The layouts of a run on its ranks, in a fixed order. The planner searches them for the fastest (planner/), and
// fitting_settings.h for the smallest change that fits.
//
// Grid:        all numbers of tensor-parallel, context-parallel and pipeline ranks that divide the ranks and the model,
//              with and without sequence parallelism
// Schedule:    1f1b, gpipe, interleaved, zb-h1, zb-h2, zb-v; the layers split evenly or by their work (with
//              interleaved: into any number of chunks per stage that divides them, or into 2, 4, 8, ... by their work)
// ZeRO stage:  those that zero_stages() allows
// Micro-batch: 1, 2, 4, ... samples, and the run's size and its divisors
// Savings:     all combinations of kSavings (in files only if there is a disk), none first
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "layout/layout.h"
#include "run/layout_changes.h"

namespace mtl {

/// What flags fix; all else is searched.
struct FixedLayout {
  std::optional<std::int64_t> tensor, context, pipeline, micro_batch;
  std::optional<std::int64_t> zero_stage;  // where there are several replicas
  std::optional<std::string> schedule;     // where there are several stages
  std::optional<std::int64_t> chunks;      // per stage, where there are several stages
  std::optional<std::string> recompute;    // none, selective or full
  std::vector<std::string> flags;          // that fix them, as given
};

struct LayoutChoice {
  int tensor = 1, context = 1, pipeline = 1;
  bool sequence_parallel = false, is_balanced = false;
  ScheduleKind schedule = ScheduleKind::one_forward_one_backward;
  int chunks = 1;  // per stage
  int zero = 0;
  std::int64_t micro_batch = 1;
  unsigned savings = 0;    // a bit for each of kSavings
  std::size_t layout = 0;  // number of the layout; choices that differ only in their savings have the same

  auto operator<=>(const LayoutChoice&) const = default;
  bool has(Saving saving) const { return (savings >> enum_index(saving) & 1) != 0; }
  /// Returns true if it needs at most the time and at least the memory of `other`, which must have the same layout.
  bool saves_no_more_than(const LayoutChoice& other) const;
  /// As ParallelOptions::replicas().
  std::int64_t replicas(std::int64_t world) const { return world / (tensor * pipeline); }
  TrainOptions options(const TrainOptions& run) const;
};

/// Returns the choices that mtl-train can run, layout by layout. `run` has the number of ranks, the batches and
/// everything that is the same in all layouts.
std::vector<LayoutChoice> layout_choices(const TrainOptions& run, const GptConfig& config, bool has_disk,
                                         const FixedLayout& fixed);

}  // namespace mtl
