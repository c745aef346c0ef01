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
  replace_flag_names(cat(where, " ", what), [&names](const std::string& name) { return names.emplace_back(name); });
  return names;
}

std::string replace_flag_names(const std::string& text,
                               const std::function<std::string(const std::string& name)>& replacement) {
  constexpr const char* kNameCharacters = "-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = 0; (at = text.find("--", at)) != std::string::npos;) {
    const std::size_t end = std::min(text.find_first_not_of(kNameCharacters, at), text.size());
    if (at == 0 || text[at - 1] == ' ' || text[at - 1] == '(') {  // else part of a path
      out += cat(text.substr(done, at - done), replacement(text.substr(at, end - at)));
      done = end;
    }
    at = end;
  }
  return out + text.substr(done);
}

UsageError::UsageError(std::vector<Problem> problems)
    : Error(Exit::usage, describe(problems)), problems_(std::move(problems)) {}

UsageError::UsageError(std::string where, std::string what)
    : UsageError(std::vector<Problem>{{std::move(where), std::move(what)}}) {}

}  // namespace mtl
