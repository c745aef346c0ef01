// The instruction sets that functions with SIMD code (base/simd.h) are compiled for, and the one that is used.
#pragma once

namespace mtl {

/// Each includes those before it. On x86, the baseline is SSE4; elsewhere there is only the baseline.
enum class InstructionSet { baseline, avx2, avx512 };

const char* name_of(InstructionSet set);

/// Returns this machine's best instruction set. Checks only the main CPU features that Highway requires.
InstructionSet best_instruction_set();

/// The instruction set whose variants MTL_DISPATCH calls: this machine's best, unless a test lowers it.
InstructionSet& instruction_set();

}  // namespace mtl
