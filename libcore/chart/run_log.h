// Training runs, read from a log: mtl-train's JSON lines, or the text that Megatron-LM and mtl-train print.
//
// A log that starts with a brace contains JSON lines, as written by --log-jsonl. Each number in a "step" line goes into
// the column with its name. A line without a type but with an "iteration" counts as a step. In a text log, each
// `name: number` field in an ` iteration N/ M | ... |` line goes into a column, under mtl's name for the metric if
// there is one (`lm loss` becomes lm_loss). Other lines are ignored.
//
// Of several validation sets, the set web has columns of its own, loss-web and ppl-web.
//
// Runs can share a file of JSON lines. A line belongs to the run whose id is in the last start line before it. A start
// line without an id continues the run without an id, or begins another one if its iteration is 0. A resumed run (first
// named at an iteration above 0) continues the run without an id. A text log is one run.
//
// A resumed run may repeat iterations. Where the iteration number decreases, the later lines replace the earlier ones,
// with a warning. Two lines with the same iteration become one row; if both have a metric, the later value wins.
//
// An incomplete last line is ignored, with a warning. Any other invalid JSON line is an error.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/console.h"

namespace mtl {

/// Columns of equal length, with NaN for missing metrics. Rows are sorted by "iteration".
class Table {
 public:
  /// Keeps the values of these columns, and of those with "-NAME" after them, and only the names of the others. Without
  /// a call, keeps all.
  void keep(std::set<std::string> columns) { kept_ = std::move(columns); }
  /// Adds a row. Drops rows for later iterations first. If there is a row for the same iteration, merges the new row
  /// into it. Returns the number of rows that were dropped or lost a value.
  std::size_t put_row(const std::vector<std::pair<std::string, double>>& row);
  /// Drops all rows at the end whose "iteration" exceeds `iteration`. Returns their number.
  std::size_t drop_after(double iteration);
  std::size_t rows() const { return rows_; }
  /// Returns an empty column if the name is unknown.
  const std::vector<double>& column(const std::string& name) const;
  std::vector<std::string> names() const;

 private:
  /// Returns the column, or null if its values are not kept.
  std::vector<double>* kept_column(const std::string& name);

  std::size_t rows_ = 0;
  std::map<std::string, std::vector<double>> columns_;
  std::set<std::string> kept_, others_;  // names; `kept_` is empty if all are
};

struct RunLog {
  std::string path;            // as given; "standard input" for -
  std::string name;            // the file's name without folder and extension
  std::string id;              // from the "start" lines; may be empty
  Table steps;                 // iteration, consumed_samples, lm_loss, ...
  Table validations;           // iteration, consumed_samples, loss, ppl; validation set only
  double sequence_length = 0;  // from the "start" line; 0: unknown
  std::vector<std::string> warnings;
  std::size_t replaced = 0;  // steps that later lines replaced
};

/// Returns the runs of the log in `text`, at least one, in the order of their first lines. Runs without a step or a
/// validation are left out, unless there is no other. `path` appears in messages and in the runs' names. The tables
/// keep `columns`; see Table::keep(). Throws Error(bad_data) with path and line, or with the encoding if it is not
/// plain UTF-8.
std::vector<RunLog> parse_run_logs(std::string_view text, const std::string& path,
                                   const std::set<std::string>& columns = {});

/// Returns the runs of all logs, which may be files or "-" for standard input, and prints their warnings. Gives each
/// run a name of its own: the log's name, its path if another log has this name, and a number if the log has several
/// runs. Throws what parse_run_logs() throws, and Error(io) if a log cannot be read.
std::vector<RunLog> read_run_logs(const std::vector<std::string>& paths, const std::set<std::string>& columns,
                                  Console& console);
/// Names the runs by --names, a `list` separated by commas. Throws Error(usage) unless it has a name for every run.
void name_runs(std::vector<RunLog>& runs, const std::string& list);

}  // namespace mtl
