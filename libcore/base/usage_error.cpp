#include "base/usage_error.h"

#include <algorithm>
#include <utility>

#include "base/str.h"

namespace mtl {

namespace {

std::string describe(const std::vector<Problem>& problems) {
  std::size_t width = 0;
  for (const auto& problem : problems) width = std::max(width, std::min<std::size_t>(problem.where.size(), 40));
  std::string out = cat(problems.size(), problems.size() == 1 ? " problem" : " problems", " with the configuration");
  for (const auto& [where, what] : problems)
    out += cat("\n  ", where, std::string(width - std::min(where.size(), width), ' '), "  ", what);
  return out;
}

}  // namespace

std::vector<std::string> Problem::flags() const {
  std::vector<std::string> names;
  for (const std::string& word : split(where, ' ')) {
    if (starts_with(word, "--")) names.push_back(word.substr(0, word.find(',')));
  }
  return names;
}

UsageError::UsageError(std::vector<Problem> problems)
    : Error(Exit::usage, describe(problems)), problems_(std::move(problems)) {}

}  // namespace mtl
