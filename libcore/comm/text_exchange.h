// Texts between ranks, of any length; for settings and messages, not for data. Collective: all members call. The group
// moves host memory, whatever the device of the run (ProcessGroups::world).
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace mtl {

/// Everyone gets everyone's text, by rank of the group.
std::vector<std::string> gather_texts(Communicator& group, const std::string& text);
/// Everyone gets the root's.
std::string broadcast_text(Communicator& group, std::string text, int root);

}  // namespace mtl
