#include "chart/run_log.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/count_of.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/str.h"
#include "base/utf8.h"

namespace mtl {

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

using Row = std::vector<std::pair<std::string, double>>;

/// Calls each(line, number, is_complete). is_complete is false if the last line lacks its newline.
template <class Each>
void for_each_line(std::string_view text, const Each& each) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::size_t end = text.find('\n');
    bool is_complete = end != std::string_view::npos;
    std::string_view line = text.substr(0, end);
    text.remove_prefix(is_complete ? end + 1 : text.size());
    if (!trim(line).empty()) each(line, number, is_complete);
  }
}

Row numbers_of(const Json& object) {
  Row row;
  for (const auto& [key, value] : object.as_object()) {
    if (value.is_number()) row.emplace_back(key, value.as_number());
  }
  return row;
}

/// Gives a validation's loss and perplexity the name of one of several sets.
void name_set(Row& row, std::string_view set) {
  for (auto& [name, value] : row)
    if (name == "loss" || name == "ppl") name += cat("-", set);
}

bool is_empty(const RunLog& log) { return log.steps.rows() + log.validations.rows() == 0; }

void put_step(RunLog& log, const Row& row) {
  log.replaced += log.steps.put_row(row);
  const auto found = std::ranges::find(row, "iteration", &Row::value_type::first);
  if (found != row.end()) log.validations.drop_after(found->second);
}

/// The runs of a JSON lines log.
class Runs {
 public:
  explicit Runs(RunLog empty) : empty_(std::move(empty)), runs_{empty_} {}

  void read_line(const Json& object) {
    std::string type = object.string_or("type", object.find("iteration") != nullptr ? "step" : "");
    if (type == "start") choose_run(object.string_or("run", ""), object.number_or("iteration", 0));
    RunLog& log = runs_[current_];
    if (type == "step") {
      put_step(log, numbers_of(object));
    } else if (type == "validation") {
      Row row = numbers_of(object);
      if (const std::string set = object.string_or("set", ""); !set.empty()) name_set(row, set);
      log.validations.put_row(row);
    } else if (type == "start") {
      log.sequence_length = object.number_or("seq_length", log.sequence_length);
    }
  }
  std::vector<RunLog> take() { return std::move(runs_); }

 private:
  /// The same rule as in train/log_rewind.cpp, except that the file's first lines need no start line.
  void choose_run(const std::string& id, double iteration) {
    auto find = [&](const std::string& wanted) {
      return std::find_if(runs_.rbegin(), runs_.rend(), [&](const RunLog& log) { return log.id == wanted; });
    };
    auto found = id.empty() && iteration == 0 ? runs_.rend() : find(id);
    if (found == runs_.rend() && iteration > 0) found = find("");
    if (found == runs_.rend() && is_empty(runs_.back()) && runs_.back().id.empty()) found = runs_.rbegin();
    if (found == runs_.rend()) found = (runs_.push_back(empty_), runs_.rbegin());
    found->id = id;
    current_ = runs_.rend() - found - 1;
  }

  RunLog empty_;
  std::vector<RunLog> runs_;
  std::size_t current_ = 0;
};

std::vector<RunLog> read_json_lines(const RunLog& empty, std::string_view text, std::vector<std::string>& warnings) {
  Runs runs(empty);
  for_each_line(text, [&](std::string_view line, std::size_t number, bool is_complete) {
    bool is_parsed = false;
    try {
      const Json object = Json::parse(line);
      if (!object.is_object()) fail(Exit::bad_data, "the line is not an object");
      is_parsed = true;
      runs.read_line(object);
    } catch (const Error& error) {
      if (is_complete || is_parsed)
        fail(Exit::bad_data, empty.path, ":", number, ": ", error.what(),
             "; expected a line that mtl-train --log-jsonl wrote");
      warnings.push_back(cat(empty.path, ":", number, ": the last line is incomplete and is ignored"));
    }
  });
  return runs.take();
}

/// Returns the column for a text log's field: "lm loss" -> lm_loss.
std::string column_name(std::string_view field) {
  static const std::map<std::string, std::string, std::less<>> kNames = {
      {"elapsed time per iteration (ms)", "elapsed_ms_per_iteration"},
      {"throughput per GPU (TFLOP/s/GPU)", "tflops_per_device"},
      {"number of skipped iterations", "skipped_iterations"},
      {"number of nan iterations", "nan_iterations"},
      {"data stall (ms)", "data_stall_ms"},
      {"communication wait (ms)", "communication_wait_ms"},
      {"lost updates of the copy", "lost_updates_copy"},
      {"MFU A", "mfu_a"},
      {"MFU B", "mfu_b"},
  };
  if (auto known = kNames.find(field); known != kNames.end()) return known->second;
  std::string name(field);
  std::ranges::replace(name, ' ', '_');
  return name;
}

/// Parses "12.5", or "41.4%" as 0.414.
std::optional<double> field_value(std::string_view text) {
  text = trim(text);
  if (!ends_with(text, "%")) return parse_float(text);
  auto percent = parse_float(text.substr(0, text.size() - 1));
  return percent ? std::optional(*percent / 100) : std::nullopt;
}

/// Returns the ` name: number |` fields in a line. Whatever follows the last bar is incomplete and ignored.
Row fields_of(std::string_view line) {
  Row row;
  for (std::size_t bar; (bar = line.find('|')) != std::string_view::npos; line.remove_prefix(bar + 1)) {
    std::string_view field = line.substr(0, bar);
    std::size_t colon = field.rfind(": ");
    if (colon == std::string_view::npos) continue;
    auto value = field_value(field.substr(colon + 1));
    if (value) row.emplace_back(column_name(trim(field.substr(0, colon))), *value);
  }
  return row;
}

/// Returns the integer that follows `word` in the line.
std::optional<std::int64_t> number_after(std::string_view line, std::string_view word) {
  std::size_t at = line.find(word);
  if (at == std::string_view::npos) return std::nullopt;
  line = line.substr(at + word.size());
  std::size_t digits = line.find_first_not_of(' ');
  if (digits == std::string_view::npos) return std::nullopt;
  line.remove_prefix(digits);
  return parse_int(line.substr(0, line.find_first_not_of("0123456789")));
}

/// Returns NAME in " validation-NAME loss at iteration 10 |", or "".
std::string_view validation_set(std::string_view line) {
  constexpr std::string_view kBegin = " validation-";
  const std::size_t begin = line.find(kBegin), end = line.find(" loss at ");
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return "";
  return line.substr(begin + kBegin.size(), end - begin - kBegin.size());
}

void read_validation_line(RunLog& log, std::string_view line, const Row& last_step) {
  if (line.find("on test set") != std::string_view::npos || line.find("test data") != std::string_view::npos) return;
  Row row = last_step;  // iteration and samples, for lines without them
  if (auto iteration = number_after(line, " loss at iteration ")) row[0].second = *iteration;
  for (auto& [name, value] : fields_of(line)) {
    if (name == "lm_loss_value") row.emplace_back("loss", value);
    if (name == "lm_loss_PPL") row.emplace_back("ppl", value);
  }
  if (const std::string_view set = validation_set(line); !set.empty()) name_set(row, set);
  if (row.size() > last_step.size()) log.validations.put_row(row);
}

void read_text(RunLog& log, std::string_view text) {
  Row last_step = {{"iteration", kNone}, {"consumed_samples", kNone}};
  for_each_line(text, [&](std::string_view line, std::size_t number, bool is_complete) {
    bool is_step = line.find("| consumed samples:") != std::string_view::npos;
    bool is_validation = line.find(" validation loss at ") != std::string_view::npos || !validation_set(line).empty();
    if (!is_step && !is_validation) return;
    if (!is_complete && trim(line).back() != '|') {
      log.warnings.push_back(cat(log.path, ":", number, ": the last line is incomplete and is ignored"));
      return;
    }
    if (is_validation) return read_validation_line(log, line, last_step);
    auto iteration = number_after(line, " iteration ");
    if (!iteration) return;
    Row row = {{"iteration", double(*iteration)}};
    for (auto& field : fields_of(line)) row.push_back(field);
    put_step(log, row);
    last_step[0].second = row[0].second;
    for (const auto& [name, value] : row) {
      if (name == "consumed_samples") last_step[1].second = value;
    }
  });
}

void refuse_compressed(const std::string& path, std::string_view text) {
  for (const auto& [magic, command] :
       {std::pair("\x1f\x8b", "gzip"), std::pair("\x28\xb5\x2f\xfd", "zstd"), std::pair("\3757zXZ", "xz")}) {
    if (starts_with(text, magic))
      fail_at(Exit::bad_data, path, "the log is compressed; decompress it: ", command, " -dc FILE | mtl-plot -");
  }
}

/// Returns the runs of a log. A file is mapped, because a log of millions of lines is much larger than what is drawn.
std::vector<RunLog> read_log(const std::string& path, const std::set<std::string>& columns) {
  if (path != "-" && fs::is_regular_file(path)) return parse_run_logs(MappedFile(path).text(), path, columns);
  return parse_run_logs(path == "-" ? read_descriptor(STDIN_FILENO, "standard input") : read_file(path), path, columns);
}

}  // namespace

std::vector<double>* Table::kept_column(const std::string& name) {
  if (kept_.empty() || kept_.contains(name.substr(0, name.find('-')))) return &columns_[name];
  others_.insert(name);
  return nullptr;
}

std::size_t Table::drop_after(double iteration) {
  const std::vector<double>& iterations = column("iteration");
  std::size_t kept = rows_;
  while (kept > 0 && !iterations.empty() && iterations[kept - 1] > iteration) --kept;
  for (auto& [name, values] : columns_) values.resize(kept);
  return std::exchange(rows_, kept) - kept;
}

std::size_t Table::put_row(const std::vector<std::pair<std::string, double>>& row) {
  const auto found = std::ranges::find(row, "iteration", &Row::value_type::first);
  const std::size_t dropped = found == row.end() ? 0 : drop_after(found->second);
  const std::vector<double>& iterations = column("iteration");
  const bool is_new = found == row.end() || iterations.empty() || iterations.back() != found->second;
  if (is_new) ++rows_;
  bool lost = false;
  for (const auto& [name, value] : row) {
    std::vector<double>* values = kept_column(name);
    if (values == nullptr) continue;
    values->resize(rows_, kNone);
    lost |= !is_new && name != "iteration" && name != "consumed_samples" && !std::isnan(values->back());
    values->back() = value;
  }
  for (auto& [name, column] : columns_) column.resize(rows_, kNone);
  return dropped + (lost ? 1 : 0);
}

const std::vector<double>& Table::column(const std::string& name) const {
  static const std::vector<double> kEmpty;
  auto found = columns_.find(name);
  return found == columns_.end() ? kEmpty : found->second;
}

std::vector<std::string> Table::names() const {
  std::set<std::string> names = others_;
  for (const auto& [name, column] : columns_) names.insert(name);
  return {names.begin(), names.end()};
}

std::vector<RunLog> parse_run_logs(std::string_view text, const std::string& path,
                                   const std::set<std::string>& columns) {
  RunLog log;
  log.steps.keep(columns);
  log.validations.keep(columns);
  log.path = path == "-" ? "standard input" : path;
  log.name = path == "-" ? "stdin" : fs::path(path).stem().string();
  refuse_other_encoding(log.path, text);
  refuse_compressed(log.path, text);
  std::vector<std::string> warnings;
  std::vector<RunLog> runs = {log};
  std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{')
    runs = read_json_lines(log, text, warnings);
  else
    read_text(runs[0], text);
  if (!std::ranges::all_of(runs, is_empty)) std::erase_if(runs, is_empty);
  for (RunLog& run : runs) {
    if (run.replaced == 0) continue;
    const std::string which = runs.size() == 1 ? "the run" : cat("run ", &run - runs.data() + 1);
    run.warnings.push_back(cat(run.path, ": ", which, " was resumed: later lines replace ", run.replaced, " earlier ",
                               run.replaced == 1 ? "one" : "ones"));
  }
  runs[0].warnings.insert(runs[0].warnings.begin(), warnings.begin(), warnings.end());
  return runs;
}

std::vector<RunLog> read_run_logs(const std::vector<std::string>& paths, const std::set<std::string>& columns,
                                  Console& console) {
  std::vector<RunLog> runs;
  std::set<std::string> names;
  for (const std::string& path : paths) {
    std::vector<RunLog> found = read_log(path, columns);
    // Runs often differ only in their folder: lr1/run.jsonl, lr2/run.jsonl.
    const std::string name = names.insert(found[0].name).second ? found[0].name : path;
    for (std::size_t i = 0; i < found.size(); ++i) {
      found[i].name = found.size() == 1 ? name : cat(name, " (", i + 1, ")");
      for (const std::string& warning : found[i].warnings) console.warn(warning);
      runs.push_back(std::move(found[i]));
    }
  }
  return runs;
}

void name_runs(std::vector<RunLog>& runs, const std::string& list) {
  const std::vector<std::string> names = split(list, ',');
  if (names.size() != runs.size()) {
    fail(Exit::usage, "--names ", list, " has ", count_of(std::ssize(names), "name"), " for ",
         count_of(std::ssize(runs), "run"), "; write one name per run, separated by commas");
  }
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].name = names[i];
}

}  // namespace mtl
