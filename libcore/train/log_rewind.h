// The log of JSON lines at the start of a session: what an earlier session of the same run wrote beyond the point that
// is resumed goes; what other runs wrote into the file stays.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mtl {

/// Where a session starts.
struct LogStart {
  std::string run;                    // identifies the run; sessions name theirs in their start line
  std::int64_t iteration = 0;         // iterations already done: 0, or the checkpoint's
  std::int64_t train_iterations = 0;  // of the whole run
  bool validation_is_due = false;     // the validation of `iteration` is repeated
};

/// What stays of the text of a log. Of the lines of this run (and, at a resume, of sessions that name no run): those of
/// iterations that are done, without another session's start at the same iteration and without the evaluations after
/// the last iteration, which are repeated. Of other runs: all. A log line that was half written goes.
/// Throws Error(bad_data) for text that is not a training log; `path` is for messages.
std::string rewind_log(std::string_view text, const LogStart& start, const std::string& path);

}  // namespace mtl
