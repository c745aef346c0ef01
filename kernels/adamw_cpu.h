// AdamW on the CPU, with and without counting lost updates. tests/bench/adamw_bench.cpp measures what counting costs.
#pragma once

#include "kernels/cpu.h"

namespace mtl::cpu {

/// Returns the step's factors, as finish_grad_norm() computes them on the CPU.
UpdateFactors factors_of(const StepState& state, const AdamWOptions& options);

/// Like adamw_step() in kernels/adamw.h. Unless `counted`, leaves the StepState's counts alone.
void adamw_step(Stream& stream, const AdamWRange& range, const AdamWOptions& options, StepState* state, bool counted);

}  // namespace mtl::cpu
