#include "layout/rank_list.h"

#include "base/str.h"

namespace mtl {

namespace {

constexpr std::size_t kMaxParts = 6;

}  // namespace

std::string rank_list(const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < ranks.size();) {
    // Find the longest run of equally spaced ranks that starts at `begin`.
    std::size_t end = begin + 1;
    int step = end < ranks.size() ? ranks[end] - ranks[begin] : 1;
    while (end < ranks.size() && ranks[end] - ranks[end - 1] == step) ++end;
    std::size_t count = end - begin;
    if (count >= 3 && step == 1) {
      parts.push_back(cat(ranks[begin], "-", ranks[end - 1]));
    } else if (count >= 5) {
      parts.push_back(cat(ranks[begin], ", ", ranks[begin + 1], ", .. ", ranks[end - 1]));
    } else {
      end = begin + 1;
      parts.push_back(cat(ranks[begin]));
    }
    begin = end;
  }
  if (parts.size() > kMaxParts) {
    parts[kMaxParts - 2] = "..";
    parts[kMaxParts - 1] = parts.back();
    parts.resize(kMaxParts);
  }
  return join(parts, ", ");
}

std::string short_rank_list(const std::vector<int>& ranks) {
  std::string list = rank_list(ranks);
  if (list.size() <= 16) return list;
  std::size_t consecutive = 1;  // consecutive ranks at the start
  while (consecutive < ranks.size() && ranks[consecutive] == ranks[consecutive - 1] + 1) ++consecutive;
  std::string begin = consecutive == 1 ? cat(ranks[0]) : cat(ranks[0], "-", ranks[consecutive - 1]);
  return cat(begin, " and ", ranks.size() - consecutive, " more");
}

}  // namespace mtl
