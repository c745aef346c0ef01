// Exchanges texts of any length between ranks. Use these functions for settings and messages, not for large data. Both
// functions are collective. The group must communicate over host memory, even in a run on GPUs; ProcessGroups::world()
// always does.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace mtl {

/// Returns the texts of all members, by rank in the group.
std::vector<std::string> gather_texts(Communicator& group, const std::string& text);
/// Returns the text of member `root` on all members. The other members' `text` is ignored.
std::string broadcast_text(Communicator& group, std::string text, int root);

}  // namespace mtl
