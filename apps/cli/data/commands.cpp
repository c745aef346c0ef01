#include "cli/data/commands.h"

#include "cli/flags.h"

namespace mtl {

void check_prefixes(Flags& flags, const std::vector<std::string>& prefixes) {
  if (prefixes.empty()) flags.problem("PREFIX", "is required: the path prefix of token files");
}

}  // namespace mtl
