// A training run as its log records it: mtl-train's JSON lines, or the text that Megatron (and mtl-train) prints.
//
// A log that starts with a brace is JSON lines, as written by --log-jsonl: every number of a "step" line goes into the
// column of its name, and a line without a type but with an "iteration" counts as a step. In a text log every field
// `name: number` of a line ` iteration N/ M | ... |` goes into a column, under mtl's name if there is one (`lm loss` is
// lm_loss); other lines are ignored.
//
// A run that was resumed repeats iterations: where the iteration goes back, the later lines replace the earlier ones,
// with a warning. Two lines of one iteration become one row; if both have a figure, the later value counts.
//
// An incomplete last line is ignored, with a warning. Any other invalid JSON line is an error.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mtl {

/// Columns of equal length; NaN where a row lacks the figure. Rows are in ascending order of "iteration".
class Table {
 public:
  /// Adds a row: first drops the rows of later iterations, and merges the row into an existing one of the same
  /// iteration. Returns how many rows were dropped or had a figure overwritten.
  std::size_t put_row(const std::vector<std::pair<std::string, double>>& row);
  /// Drops the rows at the end whose "iteration" is above `iteration`; returns how many.
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

/// Parses the log in `text`; `path` is for messages and the name. Throws Error(bad_data) with path and line.
RunLog parse_run_log(std::string_view text, const std::string& path);

}  // namespace mtl
