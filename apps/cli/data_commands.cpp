#include "cli/data_commands.h"

#include "cli/flags.h"

namespace mtl {

void check_prefixes(Flags& flags, const std::vector<std::string>& prefixes) {
  if (prefixes.empty()) flags.problem("PREFIX", "is missing: name the token files");
}

void check_one_prefix(Flags& flags, const std::vector<std::string>& prefixes) {
  check_prefixes(flags, prefixes);
  if (prefixes.size() > 1) flags.problem("PREFIX", cat("give one, not ", prefixes.size()));
}

void check_seed(Flags& flags, std::int64_t seed) {
  if (seed < 0 || seed > std::int64_t{UINT32_MAX}) {
    flags.problem(cat("--seed ", seed), "must be between 0 and 4294967295");
  }
}

}  // namespace mtl
