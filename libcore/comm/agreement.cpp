#include "comm/agreement.h"

#include <algorithm>
#include <map>

#include "comm/text_exchange.h"

namespace mtl {

namespace {

/// Returns ranks and hosts as "rank 3 (b)" or "ranks 1, 3, 5 (a, b)". Lists at most kShown ranks.
std::string name_ranks(const std::vector<int>& ranks, const std::vector<std::string>& hosts) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> numbers, places;
  for (int rank : ranks) {
    if (numbers.size() == kShown) {
      numbers.push_back(cat("and ", ranks.size() - kShown, " more"));
      break;
    }
    numbers.push_back(cat(rank));
    const std::string& host = hosts.at(rank);
    if (std::find(places.begin(), places.end(), host) == places.end()) places.push_back(host);
  }
  return cat(ranks.size() == 1 ? "rank " : "ranks ", join(numbers, ", "), " (", join(places, ", "), ")");
}

/// Returns the first differing line from `text_a` and from `text_b`, in quotes.
std::pair<std::string, std::string> first_difference(const std::string& text_a, const std::string& text_b) {
  std::vector<std::string> a = split(text_a, '\n'), b = split(text_b, '\n');
  std::size_t line = 0;
  while (line < a.size() && line < b.size() && a[line] == b[line]) ++line;
  auto quoted = [&](const std::vector<std::string>& lines) {
    return line < lines.size() ? cat("'", lines[line], "'") : std::string("nothing more");
  };
  return {quoted(a), quoted(b)};
}

}  // namespace

void check_same(Communicator& world, const std::vector<std::string>& hosts, const std::vector<AgreedItem>& items) {
  std::string problems;
  for (const AgreedItem& item : items) {
    std::vector<std::string> texts = gather_texts(world, cat(item.name, "\n", item.text));
    std::map<std::string, std::vector<int>> ranks_by_text;  // only texts unlike rank 0's
    for (std::size_t rank = 1; rank < texts.size(); ++rank) {
      if (texts[rank] != texts[0]) ranks_by_text[texts[rank]].push_back(static_cast<int>(rank));
    }
    for (const auto& [text, ranks] : ranks_by_text) {
      auto [rank_zero_line, line] = first_difference(texts[0], text);
      problems += cat("\n  ", item.name, ": ", name_ranks(ranks, hosts), ranks.size() == 1 ? " has " : " have ", line,
                      ", but rank 0 (", hosts.at(0), ") has ", rank_zero_line);
    }
  }
  if (!problems.empty())
    fail(Exit::usage,
         "the ranks of this job do not agree; start all with the same command, program and files:", problems);
}

}  // namespace mtl
