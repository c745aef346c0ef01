// Rewinds the JSON lines log when a session starts: removes lines that an earlier session of the same run wrote after
// the resumed iteration, and keeps other runs' lines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mtl {

/// The start of a session.
struct LogStart {
  std::string run;                    // identifies the run; each session's start line contains it
  std::int64_t iteration = 0;         // number of completed iterations: 0, or the checkpoint's
  std::int64_t consumed_samples = 0;  // by these iterations
  std::int64_t train_iterations = 0;  // of the whole run
  bool validation_is_due = false;     // this session repeats the validation of `iteration`
};

/// Returns the log lines to keep: all lines from other runs, and this run's lines for iterations that are done. In a
/// resumed run, sessions without a run id count as sessions of this run. Drops an incomplete last line, and lines that
/// the new session will write again:
/// - a start line for the same iteration
/// - a validation that is due
/// - an interval that an earlier end of the run cut short
/// - evaluations after the last iteration
///
/// Throws Error(bad_data) if `text` is not a training log. `path` is for messages.
std::string rewind_log(std::string_view text, const LogStart& start, const std::string& path);

}  // namespace mtl
