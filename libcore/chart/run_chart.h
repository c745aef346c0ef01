// Makes a chart from run logs, with a panel for each metric and a color for each run.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "chart/run_log.h"
#include "chart/series.h"

namespace mtl {

struct RunChartOptions {
  std::string title;
  std::string x = "iteration";        // iteration, samples, tokens or time
  std::vector<std::string> y;         // columns; empty: lm_loss, and learning_rate if a run has it
  std::int64_t smooth = 1;            // points in a trailing mean
  bool log_x = false, log_y = false;  // log_y applies to the first panel
  double sequence_length = 0;         // tokens per sample, if the log does not say
};

/// Returns the columns of the logs that make_run_chart() reads.
std::set<std::string> columns_of(const RunChartOptions& options);
/// Training metrics become lines. Validation loss (in the lm_loss panel) and perplexity (in the ppl panel) become
/// markers. Throws Error(bad_data) if a log has no points or no point with a value for x, or if no log has a requested
/// metric. Throws Error(usage) if x is tokens and the sequence length is unknown.
Chart make_run_chart(const std::vector<RunLog>& logs, const RunChartOptions& options);

/// Returns a chart's points as JSON, for a chart that make_run_chart() made from `runs`. Gaps are null:
/// {"format":"mtl-plot","version":1,"title":"","x":"iteration","panels":[{"y":"loss","series":[
///   {"run":"a","kind":"training|unsmoothed|validation","x":[10,20],"y":[9.1,null]}]}]}
std::string chart_json(const Chart& chart, const std::vector<RunLog>& runs, const RunChartOptions& options);

}  // namespace mtl
