// A training run as its log records it: mtl-train's JSON lines, or the text that Megatron (and mtl-train) prints.
//
// A log that starts with a brace is JSON lines, as of --log-jsonl: every number of a "step" line becomes a column of
// that name, and lines without a type that hold an "iteration" count as steps. In a text log every `name: number` field
// of a line ` iteration N/ M | ... |` becomes a column, under mtl's name if there is one (`lm loss` is lm_loss); other
// lines are ignored.
//
// A run that was resumed repeats iterations: where the iteration goes back, the later lines replace the earlier ones,
// with a warning. Two lines of one iteration become one row; of a figure that both have, the later value counts.
//
// An incomplete last line is ignored, with a warning. Any other broken JSON line is an error.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mtl {

/// Columns of equal length; NaN where a row has no such figure. Rows are in ascending order of "iteration".
class Table {
 public:
  /// Adds a row: drops rows of later iterations, and merges the row into one of the same iteration. Returns how many
  /// rows were dropped, or lost a figure.
  std::size_t put_row(const std::vector<std::pair<std::string, double>>& row);
  /// Drops the rows at the end whose "iteration" is above this one; returns how many.
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
  std::string name;            // the file's, without folder and ending
  Table steps;                 // iteration, consumed_samples, lm_loss, ...
  Table validations;           // iteration, consumed_samples, loss, ppl; the validation set's only
  double sequence_length = 0;  // of the "start" line; 0: unknown
  std::vector<std::string> warnings;
  std::size_t replaced = 0;  // steps that later lines replaced
};

/// The log in `text`; `path` is for messages and the name. Throws Error(bad_data) with path and line.
RunLog parse_run_log(std::string_view text, const std::string& path);

}  // namespace mtl
