// An error that lists all problems with a configuration.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"

namespace mtl {

/// A problem, and the flag or file that causes it.
struct Problem {
  std::string where;  // such as "--global-batch-size 190", or several flags, separated by ", " or " x "
  std::string what;   // such as "is not a multiple of ..."

  /// Returns the names of the flags in `where` and `what`, including those that only a remedy names.
  std::vector<std::string> flags() const;
};

/// Takes a problem: the flag that causes it, and what it is.
using ReportProblem = std::function<void(std::string flag, std::string what)>;

/// Returns the text with each flag's name (at its start, or after a blank or a "(") replaced by replacement(name).
std::string replace_flag_names(const std::string& text,
                               const std::function<std::string(const std::string& name)>& replacement);

/// Error(usage) that lists all problems, one per line: "  --flag value    message".
class UsageError : public Error {
 public:
  explicit UsageError(std::vector<Problem> problems);
  UsageError(std::string where, std::string what);
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
};

}  // namespace mtl
