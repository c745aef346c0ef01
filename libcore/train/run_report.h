// What a run says: log lines and evaluations, which go to all sinks (metrics.h), and messages about its course on the
// console, which only rank 0 prints.
#pragma once

#include <string>

#include "base/console.h"
#include "train/metrics.h"
#include "train/run_progress.h"
#include "train/step_runner.h"
#include "train/validation.h"

namespace mtl {

class RunReport {
 public:
  /// Measures the peak rate, unless a flag gives it, and opens the sinks. `run_id` identifies the run in its log;
  /// empty: a rank without sinks. `data` is TrainingData::identity().
  RunReport(const TrainOptions& options, const StepRunner& steps, RunProgress& run, Console& console,
            const std::string& run_id, const Json& data);

  Metrics& metrics() { return metrics_; }
  /// Returns the rate of one device.
  double peak_tflops() const { return peak_tflops_; }

  /// Reports the interval. `stalled` is for how many seconds the run has waited for data so far. `final` means that the
  /// run ends before the interval does. The interval's sums are then kept, so that an extended run can continue it.
  void report_interval(double stalled, bool final);
  /// Says what the run will do, and when it will be heard of again.
  void print_begin() const;
  /// After the first iteration, says how long the next report and the end of a slow run take.
  void print_times(const Validation& validation) const;
  /// On a terminal, shows the state of the run below the log, from the interval's steps so far.
  void draw_status(const Validation& validation) const;
  /// Says how far the run has come. `where` is appended.
  void print_status(const std::string& where) const;

 private:
  MetricsOptions sinks(const std::string& run_id, const Json& data) const;
  double add_rates(IntervalReport& report) const;
  double step_seconds() const { return (now_seconds() - run_.interval.began) / double(run_.interval.steps); }

  const TrainOptions& options_;
  const StepRunner& steps_;
  RunProgress& run_;
  Console& console_;
  double peak_tflops_;
  Metrics metrics_;
};

}  // namespace mtl
