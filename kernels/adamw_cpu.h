// AdamW on the cpu, with and without the counts of lost updates: what they cost is measured
// (tests/bench/adamw_bench.cpp).
#pragma once

#include "kernels/cpu.h"

namespace mtl::cpu {

/// adamw_step(), which counts; not `counted`, the StepState's counts stay as they are.
void adamw_step(Stream& stream, const AdamWRange& range, const AdamWOptions& options, StepState* state, bool counted);

}  // namespace mtl::cpu
