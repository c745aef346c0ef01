// AdamW on the cpu, with and without counting lost updates. tests/bench/adamw_bench.cpp measures the cost of counting.
#pragma once

#include "kernels/cpu.h"

namespace mtl::cpu {

/// Like adamw_step() of kernels/adamw.h. Unless `counted`, does not change the counts in the StepState.
void adamw_step(Stream& stream, const AdamWRange& range, const AdamWOptions& options, StepState* state, bool counted);

}  // namespace mtl::cpu
