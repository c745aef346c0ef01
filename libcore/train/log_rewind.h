// Rewinds the log of JSON lines at the start of a session: removes lines that an earlier session of the same run wrote
// after the resumed iteration, and keeps lines of other runs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mtl {

/// The start of a session.
struct LogStart {
  std::string run;                    // identifies the run; each session's start line names its run
  std::int64_t iteration = 0;         // number of completed iterations: 0, or the checkpoint's
  std::int64_t train_iterations = 0;  // of the whole run
  bool validation_is_due = false;     // this session repeats the validation of `iteration`
};

/// Returns the lines of a log to keep: all lines of other runs, and the lines of this run for iterations that are done.
/// In a resume, sessions that name no run count as sessions of this run. Drops lines that the new session writes again:
/// a start line of the same iteration, a validation that is due, an interval that was cut short by an earlier end of
/// the run, and evaluations after the last iteration. Also drops an incomplete last line. Throws Error(bad_data) if
/// `text` is not a training log. `path` is used in messages.
std::string rewind_log(std::string_view text, const LogStart& start, const std::string& path);

}  // namespace mtl
