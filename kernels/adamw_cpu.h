// AdamW on the cpu, with and without the counts of lost updates: tests/bench/adamw_bench.cpp measures their cost.
#pragma once

#include "kernels/cpu.h"

namespace mtl::cpu {

/// As adamw_step() of kernels/adamw.h; if not `counted`, leaves the StepState's counts unchanged.
void adamw_step(Stream& stream, const AdamWRange& range, const AdamWOptions& options, StepState* state, bool counted);

}  // namespace mtl::cpu
