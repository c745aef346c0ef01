// Formats rank lists for tables and messages.
#pragma once

#include <string>
#include <vector>

namespace mtl {

/// Returns a short list such as "0-3, 8-11" or "0, 8, .. 56". Omits the middle of a long list.
std::string rank_list(const std::vector<int>& ranks);

/// Returns a list for a narrow column, such as "0-6 and 441 more".
std::string short_rank_list(const std::vector<int>& ranks);

}  // namespace mtl
