#include "cli/foreign_flags.h"

#include "base/str.h"

namespace mtl {

void ForeignFlags::add(std::string_view names, const Answer& answer) {
  for (const std::string& name : split(names, ' ')) answers_[name] = answer;
}

ForeignFlags::Answer ForeignFlags::mistake(std::string_view meant) const {
  const std::string remedy = meant.empty() ? cat("see ", program_, " --help") : cat("did you mean ", meant, "?");
  return {Answer::unknown, -1, "unknown flag; " + remedy};
}

ForeignFlags::Answer ForeignFlags::find(const std::string& name, const std::vector<std::string>& known) const {
  if (const auto exact = answers_.find(name); exact != answers_.end()) return exact->second;
  for (std::size_t length = name.size(); length > 2; --length) {
    const auto family = answers_.find(name.substr(0, length) + "*");
    if (family != answers_.end()) return family->second;
  }
  return mistake(nearest(name, known));
}

std::string ForeignFlags::list() const {
  std::string out;
  for (const auto& [name, answer] : answers_) {
    if (answer.kind == Answer::unknown) continue;
    out += cat(answer.kind == Answer::refused ? "refused" : "acknowledged", "\t", name, "\t", answer.text, "\n");
  }
  return out;
}

}  // namespace mtl
