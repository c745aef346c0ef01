// Exchanges text of any length between ranks, for settings and messages rather than large data. Both functions are
// collective. The group must communicate over host memory, even in a run on GPUs. ProcessGroups::world() always does.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace mtl {

/// Returns all members' texts, by group rank.
std::vector<std::string> gather_texts(Communicator& group, const std::string& text);
/// Returns the text from member `root` on all members. Ignores `text` on the other members.
std::string broadcast_text(Communicator& group, std::string text, int root);

}  // namespace mtl
