// Checks before the first step that all ranks run the same program with the same settings on the same data. Otherwise
// the job might hang, or train something the user did not intend.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace mtl {

struct AgreedItem {
  std::string name;  // "command line", "tokenizer", "data X.idx"
  std::string text;  // one or more lines, for example one flag per line
};

/// Collective: all ranks must pass items with the same names in the same order. If any text differs between ranks,
/// throws the same Error(usage) on every rank. For each such item, the message lists the ranks that disagree with rank
/// 0, their hosts, and the first differing line. `hosts` is indexed by rank.
void check_same(Communicator& world, const std::vector<std::string>& hosts, const std::vector<AgreedItem>& items);

}  // namespace mtl
