// Exchanges texts of any length between ranks, for settings and messages, not for data. Collective. The group must be
// one over host memory, whatever the device of the run: ProcessGroups::world().
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace mtl {

/// Returns all members' texts, by rank of the group.
std::vector<std::string> gather_texts(Communicator& group, const std::string& text);
/// Returns the root's text on all members.
std::string broadcast_text(Communicator& group, std::string text, int root);

}  // namespace mtl
