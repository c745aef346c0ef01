#include "cli/foreign_flags.h"

#include <algorithm>

#include "base/error.h"
#include "base/str.h"

namespace mtl {

void ForeignFlags::add(std::string_view names, const Answer& answer) {
  for (const std::string& name : split(names, ' ')) answers_[name] = answer;
}

void ForeignFlags::read(std::string_view text) {
  Answer answer{Answer::refused, 0, "", "", ""};
  for (const std::string& line : split(text, '\n')) {
    const std::string_view content = trim(line);
    if (content.empty() || content[0] == '#') continue;
    const std::size_t colon = content.find(": ");
    if (content[0] == '[') {
      answer.subject = content.substr(1, content.size() - 2);
    } else if (!starts_with(content, "--")) {
      const std::string_view kind = content.substr(0, colon);
      require(colon != std::string_view::npos && (kind == "refused" || kind == "acknowledged"),
              "foreign flags: ", line);
      answer.kind = kind == "refused" ? Answer::refused : Answer::acknowledged;
      answer.text = content.substr(colon + 2);
    } else {
      for (const std::string& flag : split(content, ' ')) {
        const std::size_t end = flag.find('=');
        const bool is_family = flag.back() == '*';
        answer.takes = is_family || flag.ends_with("=...") ? -1 : end == std::string::npos ? 0 : 1;
        add(flag.substr(0, end), answer);
      }
    }
  }
}

void ForeignFlags::adopt(const ForeignFlags& other, const std::vector<std::string>& subjects, const std::string& why,
                         const std::function<bool(const std::string& name)>& is_known) {
  constexpr std::string_view kSpelled = "is spelled ";
  for (const auto& [name, answer] : other.answers_) {
    const bool is_spelled =
        starts_with(answer.text, kSpelled) && is_known(split(answer.text.substr(kSpelled.size()), ' ')[0]);
    const bool keeps =
        answer.kind == Answer::unknown || is_spelled || std::ranges::find(subjects, answer.subject) != subjects.end();
    answers_[name] = answer;
    if (!keeps) answers_[name].kind = Answer::acknowledged, answers_[name].text = why;
  }
}

void ForeignFlags::explain(std::string_view names,
                           const std::function<std::string(const std::string& value)>& explain) {
  for (const std::string& name : split(names, ' ')) answers_.at(name).explain = explain;
}

ForeignFlags::Answer ForeignFlags::mistake(std::string_view meant) const {
  const std::string remedy = meant.empty() ? cat("see ", program_, " --help") : cat("did you mean ", meant, "?");
  return {Answer::unknown, -1, "unknown flag; " + remedy, std::string(meant), ""};
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
    out += cat(answer.kind == Answer::refused ? "refused" : "acknowledged", "\t", name, "\t", answer.text, "\t",
               answer.subject, "\n");
  }
  return out;
}

}  // namespace mtl
