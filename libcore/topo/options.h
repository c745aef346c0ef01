// mtl-topo's options: a rank layout, and a model to lay out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/usage_error.h"
#include "layout/ranks.h"
#include "layout/schedule.h"
#include "layout/stages.h"
#include "run/options.h"

namespace mtl {

/// Limits for a time chart: stages, and forward passes in all stages.
inline constexpr std::int64_t kMostChartStages = 1024, kMostChartForwards = 100000;
/// Limits for the cores per rank, so that core numbers in a rankfile fit in an int with up to 2^16 ranks, and for the
/// micro-batches per step, so that they can be listed.
inline constexpr std::int64_t kMostCores = 1 << 14, kMostMicroBatches = 1 << 20;

struct TopoOptions {
  TopoOptions() { run.threads = 1; }

  TrainOptions run;                  // the options shared with mtl-train; `threads` are a rank's cores
  std::optional<std::string> hosts;  // separated by commas
  std::optional<std::int64_t> micro_batches;

  std::int64_t node_size() const;  // --gpus-per-node; default: 8, or the world size if smaller
  std::vector<std::string> host_names() const;
  std::int64_t chunks() const;  // of each stage
  Layout layout() const;        // rank 0's
  bool wants_schedule() const { return micro_batches || (run.batch.global_batch_size && fits_chart()); }
  /// Returns true if a time chart is within the limits above.
  bool fits_chart() const;
  bool wants_memory() const;                               // true if a size other than the layer count is given
  std::optional<std::int64_t> step_micro_batches() const;  // as given, or from the global batch size
  /// Returns why mtl-train cannot run this layout, or "" if it can.
  std::string unsupported_reason() const;
  /// Returns the options of a dry run of mtl-train with this layout.
  TrainOptions train_options() const;
};

/// Reports every option that does not fit the layout or the model, with the flag that sets it. Refused values of single
/// flags must have been reported before.
void check_topo(const TopoOptions& options, const ReportProblem& report);

}  // namespace mtl
