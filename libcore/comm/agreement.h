// Checks once, before the first step, that all ranks run the same program with the same settings on the same data.
// Otherwise they would train something unintended, or hang.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace mtl {

struct AgreedItem {
  std::string name;  // "command line", "tokenizer", "data X.idx"
  std::string text;  // one or more lines, for example one flag per line
};

/// Collective: all ranks pass items of the same names in the same order. If a text differs, throws the same
/// Error(usage) on every rank; it names the ranks that differ from rank 0 (with their hosts), the items, and the first
/// differing lines. `hosts`: by rank.
void check_same(Communicator& world, const std::vector<std::string>& hosts, const std::vector<AgreedItem>& items);

}  // namespace mtl
