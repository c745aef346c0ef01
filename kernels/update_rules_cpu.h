// Update rules on the CPU, and AdamW with and without counting lost updates. tests/bench/adamw_bench.cpp measures what
// counting costs.
#pragma once

#include <variant>

#include "kernels/cpu.h"

namespace mtl::cpu {

using RuleFactors = std::variant<AdamWFactors, SgdFactors, DescentFactors>;

/// Like adamw_step() in kernels/update_rules.h. Unless `counted`, leaves the StepState's counts alone.
void adamw_step(Stream& stream, const UpdateRange& range, const AdamWOptions& options, StepState* state, bool counted);

}  // namespace mtl::cpu
