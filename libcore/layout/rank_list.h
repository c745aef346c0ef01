// Lists of ranks in few words, for tables and messages.
#pragma once

#include <string>
#include <vector>

namespace mtl {

/// Ranks in few words: "0-3, 8-11" or "0, 8, .. 56"; long lists without their middle.
std::string rank_list(const std::vector<int>& ranks);

/// Ranks in few words, for a column that a long list would make wide: "0-6 and 441 more".
std::string short_rank_list(const std::vector<int>& ranks);

}  // namespace mtl
