#include "base/instruction_set.h"

namespace mtl {

const char* name_of(InstructionSet set) {
  return set == InstructionSet::avx512 ? "AVX-512" : set == InstructionSet::avx2 ? "AVX2" : "baseline";
}

InstructionSet best_instruction_set() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi2") || !__builtin_cpu_supports("fma"))
    return InstructionSet::baseline;
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512cd");
  return has_avx512 ? InstructionSet::avx512 : InstructionSet::avx2;
#else
  return InstructionSet::baseline;
#endif
}

InstructionSet& instruction_set() {
  static InstructionSet set = best_instruction_set();
  return set;
}

}  // namespace mtl
