#include "cli/data_commands.h"

#include "cli/flags.h"

namespace mtl {

void check_prefixes(Flags& flags, const std::vector<std::string>& prefixes) {
  if (prefixes.empty()) flags.problem("PREFIX", "is required: the path prefix of token files");
}

void check_one_prefix(Flags& flags, const std::vector<std::string>& prefixes) {
  check_prefixes(flags, prefixes);
  if (prefixes.size() > 1) flags.problem("PREFIX", cat("is given ", prefixes.size(), " times; give it once"));
}

}  // namespace mtl
