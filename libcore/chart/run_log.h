// A training run, read from its log: the JSON lines of mtl-train, or the text that Megatron-LM and mtl-train print.
//
// A log that starts with a brace contains JSON lines, as written by --log-jsonl. Every number in a "step" line goes
// into the column with the name of the number. A line without a type but with an "iteration" counts as a step. In a
// text log, every field `name: number` of a line ` iteration N/ M | ... |` goes into a column, which has the name of
// the corresponding mtl metric if there is one (`lm loss` becomes lm_loss). Other lines are ignored.
//
// A resumed run may repeat iterations. Where the iteration number decreases, the later lines replace the earlier lines,
// with a warning. Two lines of the same iteration become one row; if both lines have a metric, the later value counts.
//
// An incomplete last line is ignored, with a warning. Any other invalid JSON line is an error.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mtl {

/// Columns of equal length, with NaN where a row lacks a metric. Rows are in ascending order of "iteration".
class Table {
 public:
  /// Adds a row. First drops the rows of later iterations. If a row of the same iteration exists, merges the new row
  /// into that row. Returns the number of rows that were dropped or in which a metric was overwritten.
  std::size_t put_row(const std::vector<std::pair<std::string, double>>& row);
  /// Drops the rows at the end whose "iteration" exceeds `iteration`. Returns the number of dropped rows.
  std::size_t drop_after(double iteration);
  std::size_t rows() const { return rows_; }
  /// Empty if there is no such column.
  const std::vector<double>& column(const std::string& name) const;
  std::vector<std::string> names() const;

 private:
  void append_row(const std::vector<std::pair<std::string, double>>& row);

  std::size_t rows_ = 0;
  std::map<std::string, std::vector<double>> columns_;
};

struct RunLog {
  std::string path;            // as given; "standard input" for -
  std::string name;            // the file's name without folder and extension
  Table steps;                 // iteration, consumed_samples, lm_loss, ...
  Table validations;           // iteration, consumed_samples, loss, ppl; of the validation set only
  double sequence_length = 0;  // from the "start" line; 0: unknown
  std::vector<std::string> warnings;
  std::size_t replaced = 0;  // steps that later lines replaced
};

/// Parses the log in `text`. `path` is used in messages and for the name of the run. Throws Error(bad_data) that names
/// path and line.
RunLog parse_run_log(std::string_view text, const std::string& path);

}  // namespace mtl
