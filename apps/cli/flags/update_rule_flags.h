// Flags of update rules.
#pragma once

#include "cli/flags.h"
#include "run/options.h"

namespace mtl {

/// Adds --optimizer, shared by mtl-train and mtl-topo.
void add_update_rule_flag(Flags& flags, OptimizerOptions& options);
/// Adds the options of each rule.
void add_update_rule_flags(Flags& flags, OptimizerOptions& options);

}  // namespace mtl
