// All ranks must run the same program with the same settings on the same data; otherwise they train something that
// not intended, or hang. Compared once, before the first step.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace mtl {

struct AgreedItem {
  std::string name;  // "command line", "tokenizer", "data X.idx"
  std::string text;  // one line, or several, such as one flag a line
};

/// Collective: all ranks give the same items by name, in the same order. Throws Error(usage), the same one on every
/// rank, that names the ranks which differ from rank 0 (with their hosts, by rank), the items, and the first line that
/// differs on both sides.
void check_same(Communicator& world, const std::vector<std::string>& hosts, const std::vector<AgreedItem>& items);

}  // namespace mtl
