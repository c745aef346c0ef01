// Where a run's figures go: the terminal (Megatron's log lines on stdout), TensorBoard, and JSON lines. All sinks get
// the same figures of the same reports. Only the rank that speaks has sinks; on the others every call does nothing.
//
// JSON lines, one object a line, doubles in the shortest form that reads back the same, absent figures left out:
//   {"type":"start","version":1,"iteration":0, ...}                the iteration the session starts from; provenance
//   {"type":"step","iteration":10,"consumed_samples":160,"lm_loss":..., "learning_rate":..., ...}
//   {"type":"validation","iteration":100,"consumed_samples":...,"loss":...,"ppl":...}
//   {"type":"test", ...}                                            as validation; "final":true after the last
//   iteration
// NaN and the infinities are written as Python's json writes them.
//
// A killed run may leave lines of iterations that are done again after a resume. Opening the log at iteration k drops
// (atomically) the lines of later iterations, the final ones, what another session started at k, and a half-written
// last line: the file reads like one uninterrupted run, with a "start" line for each session that contributed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/files.h"
#include "base/json.h"
#include "train/log_line.h"
#include "train/tensorboard.h"

namespace mtl {

struct MetricsOptions {
  bool terminal = true;              // false, with empty paths: a rank that does not speak
  std::string tensorboard_dir;       // empty: none
  std::string log_jsonl;             // empty: none
  std::int64_t start_iteration = 0;  // iterations already done: 0, or the checkpoint's
  std::int64_t world_size = 1;
  Json start = Json::object();  // what the "start" line says beside type, version and iteration
};

class Metrics {
 public:
  /// Opens the sinks. Throws Error(io), or Error(bad_data) when the log holds something else than such lines.
  explicit Metrics(const MetricsOptions& options);

  void report(const StepReport& report);
  void report(const ValidationReport& report);
  /// Everything reported so far is on disk afterwards; called before a checkpoint commits.
  void flush();

 private:
  void write_json(const Json& object);
  bool terminal_;
  std::int64_t world_size_;
  std::optional<EventFile> events_;
  std::optional<OutputFile> log_;
};

/// What is left of a log's text when its run goes on from `iteration`; `path` is for messages.
std::string rewind_log(std::string_view text, std::int64_t iteration, const std::string& path);

}  // namespace mtl
