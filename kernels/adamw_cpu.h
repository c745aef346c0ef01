// AdamW on the CPU, with and without counting lost updates. tests/bench/adamw_bench.cpp measures what counting costs.
#pragma once

#include "kernels/cpu.h"

namespace mtl::cpu {

/// Like adamw_step() in kernels/adamw.h. Unless `counted`, leaves the StepState's counts alone.
void adamw_step(Stream& stream, const UpdateRange& range, const AdamWOptions& options, StepState* state, bool counted);

}  // namespace mtl::cpu
