// From the logs of runs to a chart of them: which figure over which, one panel for each figure, one colour a run.
#pragma once

#include <string>
#include <vector>

#include "chart/run_log.h"
#include "chart/series.h"

namespace mtl {

struct RunChartOptions {
  std::string title;
  std::string x = "iteration";   // iteration, samples, tokens or time
  std::vector<std::string> y;    // columns; empty: lm_loss, and learning_rate where a run has it
  std::int64_t smooth = 1;       // trailing mean over so many points
  bool log_x = false, log_y = false;  // log_y is for the first panel
  double sequence_length = 0;    // tokens per sample, for logs that do not say
};

/// Training figures become lines, the validation loss (with lm_loss) and perplexity (with ppl) markers.
/// Throws Error(bad_data) when a log has no point, or none of what was asked for.
Chart make_run_chart(const std::vector<RunLog>& logs, const RunChartOptions& options);

/// The chart's figures, {"format":"mtl-plot","version":1,"x":"iteration","panels":[{"y":...,"series":[...]}]};
/// gaps are null.
std::string chart_json(const Chart& chart, const RunChartOptions& options);

}  // namespace mtl
