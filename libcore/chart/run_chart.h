// Makes a chart from the logs of runs: one panel per figure, one color per run.
#pragma once

#include <string>
#include <vector>

#include "chart/run_log.h"
#include "chart/series.h"

namespace mtl {

struct RunChartOptions {
  std::string title;
  std::string x = "iteration";        // iteration, samples, tokens or time
  std::vector<std::string> y;         // columns; empty: lm_loss, and learning_rate where a run has it
  std::int64_t smooth = 1;            // trailing mean over this many points
  bool log_x = false, log_y = false;  // log_y is for the first panel
  double sequence_length = 0;         // tokens per sample, for logs that do not record it
};

/// Training figures become lines; the validation loss (with lm_loss) and perplexity (with ppl) become markers.
/// Throws Error(bad_data) if a log has no point, or none with a value for x, or if no log has a requested figure;
/// Error(usage) if x is tokens and the sequence length is unknown.
Chart make_run_chart(const std::vector<RunLog>& logs, const RunChartOptions& options);

/// Returns as JSON the points of a chart that make_run_chart made from `runs`; gaps are null:
/// {"format":"mtl-plot","version":1,"title":"","x":"iteration","panels":[{"y":"loss","series":[
///   {"run":"a","kind":"training|unsmoothed|validation","x":[10,20],"y":[9.1,null]}]}]}
std::string chart_json(const Chart& chart, const std::vector<RunLog>& runs, const RunChartOptions& options);

}  // namespace mtl
