#include "train/log_rewind.h"

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"

namespace mtl {

namespace {

/// The fields that determine whether to keep a line.
struct LogEntry {
  std::string type;
  std::string run;  // of a start line
  std::int64_t iteration = 0;
  bool is_final = false;
};

[[noreturn]] void fail_no_log(const std::string& path, std::int64_t number, const std::string& reason) {
  fail(Exit::bad_data, path, ":", number, " is not a line of a training log (", reason,
       "); choose another file for --log-jsonl");
}

LogEntry parse_entry(std::string_view line, const std::string& path, std::int64_t number) {
  try {
    const Json object = Json::parse(line);
    return {object.at("type").as_string(), object.string_or("run", ""), object.at("iteration").as_int(),
            object.bool_or("final", false)};
  } catch (const Error& error) {
    fail_no_log(path, number, error.what());
  }
}

/// Returns true if a killed run may have left this line unfinished. A host crash may leave trailing zeros.
bool is_half_written(std::string_view line) {
  constexpr std::string_view kBegin = "{\"type\": \"";
  while (!line.empty() && line.back() == '\0') line.remove_suffix(1);
  return line.substr(0, kBegin.size()) == kBegin.substr(0, line.size());
}

bool is_kept(const LogEntry& entry, const LogStart& start) {
  if (entry.iteration != start.iteration) return entry.iteration < start.iteration && !entry.is_final;
  if (entry.type == "start") return false;
  if (entry.type == "step") return !entry.is_final || start.iteration == start.train_iterations;
  return !entry.is_final && !start.validation_is_due;
}

}  // namespace

std::string rewind_log(std::string_view text, const LogStart& start, const std::string& path) {
  std::string kept;
  std::string dropped_start;   // of this run, and not kept; needed if a line of this run is kept after another run's
  bool follows_other = false;  // the last start line kept is another run's
  std::int64_t number = 0;
  bool is_own = start.iteration > 0;  // for lines before the first start line
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      if (!is_half_written(text)) fail_no_log(path, number + 1, "its line end is missing");
      break;
    }
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    ++number;
    if (trim(line).empty()) continue;
    const LogEntry entry = parse_entry(line, path, number);
    const bool is_start = entry.type == "start";
    if (is_start) is_own = entry.run.empty() ? start.iteration > 0 : entry.run == start.run;
    if (is_own && !is_kept(entry, start)) {
      if (is_start) dropped_start = cat(line, "\n");
      continue;
    }
    if (is_own && !is_start && follows_other) kept += dropped_start;
    if (is_start || is_own) follows_other = !is_own;
    kept += cat(line, "\n");
  }
  return kept;
}

}  // namespace mtl
