// Exchanges text of any length between ranks, for settings and messages, not for large data. Both functions are
// collective. The group must communicate over host memory, even in a run on GPUs; ProcessGroups::world() always does.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace mtl {

/// Returns the texts from all members, by rank in the group.
std::vector<std::string> gather_texts(Communicator& group, const std::string& text);
/// Returns member `root`'s text on all members. Ignores the other members' `text`.
std::string broadcast_text(Communicator& group, std::string text, int root);

}  // namespace mtl
