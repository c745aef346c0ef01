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
  std::int64_t iteration = 0;         // iterations already done: 0, or as in the checkpoint
  std::int64_t train_iterations = 0;  // of the whole run
  bool validation_is_due = false;     // the validation of `iteration` is repeated
};

/// Returns the lines of a log to keep: all lines of other runs, and the lines of this run (at a resume also of sessions
/// that name no run) for iterations that are done, except those that the session repeats: a start at the same
/// iteration, a validation that is due, an interval that an earlier end of the run cut short, evaluations after the
/// last iteration. Drops an incomplete last line. Throws Error(bad_data) for text that is not a training log; `path` is
/// for messages.
std::string rewind_log(std::string_view text, const LogStart& start, const std::string& path);

}  // namespace mtl
