// All problems of a configuration in one error.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace mtl {

/// One problem, and the flag or file that has it.
struct Problem {
  std::string where;  // "--global-batch-size 190"
  std::string what;   // "is not a multiple of ..."
};

/// Error(usage) that lists all problems, one line each: "  --flag value    message".
class UsageError : public Error {
 public:
  explicit UsageError(std::vector<Problem> problems);
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
};

}  // namespace mtl
