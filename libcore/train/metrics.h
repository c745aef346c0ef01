// Where a run's reports go: the terminal (Megatron-LM log lines on stdout), TensorBoard, Weights & Biases, JSON lines,
// and a file for Prometheus (metrics_textfile.h). All sinks write the same metrics. Only rank 0 has sinks; on other
// ranks, calls do nothing.
//
// JSON lines: one object per line. Doubles are written in the shortest form that parses to the same value. Absent
// metrics are omitted:
//   {"type":"start","version":1,"iteration":0, ...}                the iteration the session starts from; provenance
//   {"type":"step","iteration":10,"consumed_samples":160,"lm_loss":..., "learning_rate":..., ...}
//   {"type":"validation","iteration":100,"consumed_samples":...,"loss":...,"ppl":...}   and "set" if there are several
//   {"type":"test", ...}                                            like validation
// At the end of the run, "final":true is added to the last interval and to the evaluations that follow. NaN and
// infinities are written as by Python's json module.
//
// A killed run may leave lines for iterations that a resumed run repeats. Opening the log atomically removes these
// lines (log_rewind.h). This run's remaining lines then read like those of one uninterrupted run, with a "start" line
// for each session that contributed. Lines from other runs are kept, because a new run appends to the file. Runs may
// also write to one file at the same time (shared_log.h): where a line of one run follows a line of another, a start
// line with only "iteration" and "run" stands before it.
//
// Failing sinks do not end the run: see log_sink.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/console.h"
#include "base/json.h"
#include "train/log_line.h"
#include "train/log_rewind.h"
#include "train/log_sink.h"
#include "train/metrics_textfile.h"
#include "train/shared_log.h"
#include "train/tensorboard.h"
#include "train/wandb_run.h"

namespace mtl {

struct MetricsOptions {
  bool terminal = true;         // false, with empty paths: a rank without sinks
  std::string tensorboard_dir;  // empty: none
  std::string log_jsonl;        // empty: none
  std::string log_prometheus;   // empty: none
  WandbOptions wandb;           // no project: none
  LogStart from;                // where this session starts
  std::int64_t world_size = 1;
  Json start = Json::object();  // more entries for the "start" line
};

struct Figure;

class Metrics {
 public:
  /// Opens the sinks. Throws Error(bad_data) if the file options.log_jsonl is not a training log. Warns about failing
  /// sinks on `console`, which the caller must keep alive.
  Metrics(const MetricsOptions& options, Console& console);

  void report(const IntervalReport& report);
  void report(const ValidationReport& report);
  /// Syncs all written reports to disk. Called before a checkpoint commits.
  void flush();
  /// Calls flush(), and warns about lost records. The process will exit with `exit`.
  void finish(Exit exit = Exit::ok);

 private:
  void open_log();
  Json short_start() const;
  void open_events();
  void print(const std::string& lines);
  void write_json(const Json& object);
  void write_curves(const std::vector<Figure>& figures, std::int64_t iteration, std::int64_t samples);

  MetricsOptions options_;
  Console& console_;
  LogSink terminal_sink_, log_sink_, event_sink_, wandb_sink_, textfile_sink_;
  std::optional<SharedLog> log_;
  std::optional<EventFile> events_;
  std::optional<WandbRun> wandb_;
  MetricsTextfile textfile_;
  bool is_line_broken_ = false;  // standard output ends in the middle of a line
};

}  // namespace mtl
