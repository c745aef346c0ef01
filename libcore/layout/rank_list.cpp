#include "layout/rank_list.h"

#include "base/str.h"

namespace mtl {

namespace {

constexpr std::size_t kMostParts = 6;  // of a list

}  // namespace

std::string rank_list(const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < ranks.size();) {
    // The longest run of equal steps from here on.
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
  if (parts.size() > kMostParts) {
    parts[kMostParts - 2] = "..";
    parts[kMostParts - 1] = parts.back();
    parts.resize(kMostParts);
  }
  return join(parts, ", ");
}

std::string short_rank_list(const std::vector<int>& ranks) {
  std::string list = rank_list(ranks);
  if (list.size() <= 16) return list;
  std::size_t first = 1;  // ranks in a row
  while (first < ranks.size() && ranks[first] == ranks[first - 1] + 1) ++first;
  std::string begin = first == 1 ? cat(ranks[0]) : cat(ranks[0], "-", ranks[first - 1]);
  return cat(begin, " and ", ranks.size() - first, " more");
}

}  // namespace mtl
